"""Run cells as tasks of a Slurm job array: submit, run one task, requeue, report the end."""
