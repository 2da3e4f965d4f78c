#!/usr/bin/env bash
# Install the system parts the tests use, only those that are missing, only as root, only with apt.
# No service is started: the tests start their own servers in the foreground.
set -euo pipefail

parts='
sshd       openssh-server
ssh        openssh-client
rsync      rsync
tmux       tmux
pypy3      pypy3
bwrap      bubblewrap
ip         iproute2
unshare    util-linux
hostname   hostname
cron       cron
fish       fish
csh        csh
tcsh       tcsh
zsh        zsh
busybox    busybox-static
slurmctld  slurm-wlm
munged     munge
slurmdbd   slurmdbd
mariadbd   mariadb-server
'

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing() {
  while read -r program package; do
    if [ -n "$program" ] && ! command -v "$program" >/dev/null; then echo "$package"; fi
  done <<<"$parts"
  # Debian keeps venv's pip apart from the interpreters.
  if ! pypy3 -c 'import ensurepip, venv' 2>/dev/null; then echo pypy3-venv; fi
  if ! "$(tools/find_python.sh 2>/dev/null || echo false)" -c 'import ensurepip' 2>/dev/null; then echo python3-venv; fi
}

cd "$(dirname "$0")/.."
# Kubernetes takes minutes to build, so only who asks for it gets it; a cached build costs nothing.
if [ -n "${LEASEHOLD_K8S_BUILD:-}" ]; then tools/k8s_parts.sh; fi
mapfile -t wanted < <(missing)
if [ ${#wanted[@]} -eq 0 ]; then
  echo "system parts: all here"
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "system parts: missing ${wanted[*]}" >&2
  echo "  as root on Debian or Ubuntu: apt-get install --no-install-recommends ${wanted[*]}" >&2
  exit 1
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi

echo "system parts: installing ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends "${wanted[@]}" >/dev/null

mapfile -t still < <(missing)
if [ ${#still[@]} -ne 0 ]; then
  echo "system parts: still missing after apt-get: ${still[*]}" >&2
  exit 1
fi
