"""Processes and locks: start, detach, list, end."""
