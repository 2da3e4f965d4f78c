#!/usr/bin/env bash
# Make .venv-landlords, which holds vast.ai's own client and schemathesis: tests run them against the fake landlords.
exec "$(dirname "$0")/side_venv.sh" landlords "vastai or schemathesis cannot be had: the index cannot be reached"
