#!/usr/bin/env bash
# Make .venv-fuzz, which holds atheris alone: `python -m bench fuzz` runs the readers with it.
exec "$(dirname "$0")/side_venv.sh" fuzz "atheris has no wheel for this machine, or the index cannot be reached"
