"""The states of a run and of a cell."""

RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
TERMINAL = (FINISHED, FAILED, STOPPED)
