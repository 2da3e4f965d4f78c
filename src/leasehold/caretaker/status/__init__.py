"""State of runs, and the processes that work in their folders."""
