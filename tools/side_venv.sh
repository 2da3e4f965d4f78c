#!/usr/bin/env bash
# Make .venv-NAME from tools/NAME.lock alone, for a bench that needs what the product must not: side_venv.sh NAME WHY_NOT
set -euo pipefail
cd "$(dirname "$0")/.."

lock=tools/$1.lock
venv=.venv-$1
stamp=$venv/.installed-from-lock

if [ -e "$stamp" ] && [ ! "$lock" -nt "$stamp" ]; then exit 0; fi
"$(tools/find_python.sh)" -m venv --clear "$venv"
if ! "$venv/bin/python" -m pip install -qq --only-binary :all: --require-hashes -r "$lock"; then
  rm -rf "$venv"
  echo "$1: $2; its bench is skipped" >&2
  exit 1
fi
touch "$stamp"
