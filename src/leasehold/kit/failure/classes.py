"""The classes of failure, by the possible response. Separate from classify.py, which the caretaker must not load."""

from __future__ import annotations

PROBABILISTIC, DISK_FULL, BUG, HARDWARE = "probabilistic", "disk_full", "bug", "hardware"
PREEMPTED, WALLTIME, TRANSPORT, UNKNOWN = "preempted", "walltime", "transport", "unknown"
CLASSES = (PROBABILISTIC, DISK_FULL, BUG, HARDWARE, PREEMPTED, WALLTIME, TRANSPORT, UNKNOWN)
