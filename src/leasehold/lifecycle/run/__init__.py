"""Whole commands from end to end: run, resume, stop, adopt, attach, fetch."""
