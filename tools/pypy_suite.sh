#!/usr/bin/env bash
# Run the tests of the code that runs on rented boxes under a second, older Python: Debian's PyPy (3.9).
# vermin promises 3.8 by reading the code; this runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=tools/pypy.lock
venv=.venv-pypy
stamp=$venv/.installed-from-lock

suites=()
for folder in tests/unit/kit tests/unit/caretaker; do
  if [ -d "$folder" ]; then suites+=("$folder"); fi
done
if [ ${#suites[@]} -eq 0 ]; then
  echo "pypy: none of the on-box suites exists yet"
  exit 0
fi

usable() { pypy3 -c 'import ensurepip, venv' 2>/dev/null; }

if ! usable && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "pypy: installing pypy3 and pypy3-venv"
  apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends pypy3 pypy3-venv >/dev/null || true
fi
if ! usable; then
  reason="no pypy3 with venv here; as root on Debian or Ubuntu: apt-get install pypy3 pypy3-venv"
  if [ "${CI:-}" = true ]; then
    echo "pypy: $reason" >&2
    exit 1
  fi
  echo "pypy: skipped: $reason"
  exit 0
fi

if [ ! -e "$stamp" ] || [ "$lock" -nt "$stamp" ]; then
  pypy3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install -qq --require-hashes -r "$lock"
  touch "$stamp"
fi

# Own cache and bytecode: this run must neither read nor leave anything in the other interpreter's.
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" -m pytest -q -n 2 --tier fast -o cache_dir="$venv/pytest_cache" "${suites[@]}" "$@"
