#!/usr/bin/env bash
# Run `make test` as a new user does on a bare machine: as an ordinary user, in a fresh copy with a .venv of its own,
# where no optional part can be found. The parts stay installed: a private mount namespace has programs' folders without
# them. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

# Parts that a test may use and a fresh Debian or Ubuntu may lack.
hidden='
sshd ssh ssh-keygen ssh-agent ssh-add ssh-keyscan scp sftp rsync
tmux screen pypy3 bwrap unshare nsenter newuidmap newgidmap ip cron fish csh tcsh zsh busybox
slurmctld slurmd slurmdbd sbatch squeue scontrol scancel sinfo sacct srun munged mariadbd mariadb-install-db mysqld
chromium chromedriver docker podman kubectl rclone curl wget nvidia-smi nvcc systemctl systemd-run systemd-analyze
cc gcc g++ clang openssl git ps
'

if [ "$(id -u)" -ne 0 ]; then
  echo "bare: needs root: it hides programs in a mount namespace and then becomes an ordinary user" >&2
  exit 1
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-bare.XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir "$place/home" "$place/tmp" "$place/repo" "$place/layers"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - | tar -xf - -C "$place/repo"
chmod 755 "$place"
chown -R nobody "$place/home" "$place/tmp" "$place/repo"

passed_on=(HOME="$place/home" TMPDIR="$place/tmp" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8)
for name in $(compgen -e | grep -E '^(PIP_|https?_proxy$|HTTPS?_PROXY$|no_proxy$|NO_PROXY$|CI$|LEASEHOLD_TEST_DAY$)' || true); do
  passed_on+=("$name=${!name}")
done

# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount --propagation private bash -euo pipefail -c '
  place=$1 hidden=$2; shift 2
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
  mount -t tmpfs tmpfs "$place/layers"
  for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin; do
    layer=$place/layers$folder
    mkdir -p "$layer/upper" "$layer/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$layer/upper,workdir=$layer/work" "$folder"
    for name in $hidden; do rm -f "$folder/$name"; done
  done
  for name in $hidden; do
    if found=$(command -v "$name"); then echo "bare: $name is not hidden: $found" >&2; exit 1; fi
  done
  cd "$place/repo"
  exec setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all --no-new-privs env -i "$@"
' bare "$place" "$hidden" "${passed_on[@]}" make --no-print-directory test ARGS="${ARGS:-}"
