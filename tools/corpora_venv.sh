#!/usr/bin/env bash
# Make .venv-corpora for `make corpora`: public scanners of model files and the libraries that write such files (1.4 GB).
set -euo pipefail
cd "$(dirname "$0")/.."

list=tools/corpora.txt
venv=.venv-corpora
stamp=$venv/.installed-from-list

if [ -e "$stamp" ] && [ ! "$list" -nt "$stamp" ]; then exit 0; fi
"$(tools/find_python.sh)" -m venv --clear "$venv"
"$venv/bin/python" -m pip install -q -r "$list"
touch "$stamp"
