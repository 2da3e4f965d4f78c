#!/usr/bin/env bash
# Make .venv-submitit, which holds submitit alone: `python -m bench sweep` is measured against it.
exec "$(dirname "$0")/side_venv.sh" submitit "submitit cannot be had: the index cannot be reached"
