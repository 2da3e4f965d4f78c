"""A Slurm cluster as the engine: cells are tasks of a job array, and each task runs a caretaker of its own."""
