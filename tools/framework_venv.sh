#!/usr/bin/env bash
# Make .venv-frameworks; the tests of leasehold.checkpoint find it there. CI does not: a CPU torch and its kin are 1 GB.
set -euo pipefail
cd "$(dirname "$0")/.."

list=tools/frameworks.txt
venv=.venv-frameworks
stamp=$venv/.installed-from-list

if [ -e "$stamp" ] && [ ! "$list" -nt "$stamp" ]; then exit 0; fi
"$(tools/find_python.sh)" -m venv --clear "$venv"
"$venv/bin/python" -m pip install -q -r "$list"
touch "$stamp"
