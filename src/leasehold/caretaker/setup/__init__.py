"""Prepare an attempt: run the job's set-up, find its interpreter, check its keys."""
