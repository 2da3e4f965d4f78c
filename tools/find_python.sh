#!/usr/bin/env bash
# Print a Python >= 3.11 to build .venv with. Usage: tools/find_python.sh [INTERPRETER]
# Candidates are run, not only looked up: a pyenv shim exists for versions that are not active.
set -euo pipefail

new_enough='import sys; print(sys.executable) if sys.version_info >= (3, 11) else sys.exit(1)'

if [ $# -gt 0 ]; then
  candidates=("$1")
else
  candidates=(python3.11 python3 python3.12 python3.13 python3.14 python)
fi

for candidate in "${candidates[@]}"; do
  if found=$("$candidate" -c "$new_enough" 2>/dev/null); then
    printf '%s\n' "$found"
    exit 0
  fi
done

cat >&2 <<MESSAGE
setup: no Python 3.11 or newer among: ${candidates[*]}
  Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv
  elsewhere: install one, then  make setup PYTHON=/path/to/python3.11
MESSAGE
exit 1
