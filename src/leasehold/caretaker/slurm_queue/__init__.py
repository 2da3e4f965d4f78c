"""Read and write Slurm's own records: submissions, task states, accounting, site resources."""
