#!/usr/bin/env bash
# Make a virtual environment. Usage: tools/make_venv.sh FOLDER [INTERPRETER]
# Debian keeps venv's pip in a package of its own: as root it is installed, otherwise named.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
shift
python=$(tools/find_python.sh "$@")

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: $python cannot make a virtual environment: its module ensurepip is missing" >&2
    echo "  on Debian or Ubuntu, as root: apt-get install $package" >&2
    exit 1
  fi
  echo "setup: installing $package: $python lacks ensurepip"
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$package" >/dev/null
fi

echo "setup: making $folder with $python"
"$python" -m venv --clear "$folder"
