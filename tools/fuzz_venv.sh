#!/usr/bin/env bash
# Make .venv-fuzz, which holds atheris alone: `python -m bench fuzz` runs the readers with it.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=tools/fuzz.lock
venv=.venv-fuzz
stamp=$venv/.installed-from-lock

if [ -e "$stamp" ] && [ ! "$lock" -nt "$stamp" ]; then exit 0; fi
"$(tools/find_python.sh)" -m venv --clear "$venv"
if ! "$venv/bin/python" -m pip install -qq --only-binary :all: --require-hashes -r "$lock"; then
  rm -rf "$venv"
  echo "fuzz: atheris has no wheel for this machine, or the index cannot be reached; its bench is skipped" >&2
  exit 1
fi
touch "$stamp"
