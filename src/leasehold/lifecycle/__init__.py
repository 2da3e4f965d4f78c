"""One stage of a run's life a file."""
