#!/usr/bin/env bash
# Make .venv-submitit, which holds submitit alone: `python -m bench sweep` is measured against it.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=tools/submitit.lock
venv=.venv-submitit
stamp=$venv/.installed-from-lock

if [ -e "$stamp" ] && [ ! "$lock" -nt "$stamp" ]; then exit 0; fi
"$(tools/find_python.sh)" -m venv --clear "$venv"
if ! "$venv/bin/python" -m pip install -qq --only-binary :all: --require-hashes -r "$lock"; then
  rm -rf "$venv"
  echo "sweep: submitit cannot be had: the index cannot be reached; its bench is skipped" >&2
  exit 1
fi
touch "$stamp"
