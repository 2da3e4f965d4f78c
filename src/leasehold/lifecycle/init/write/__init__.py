"""Write the job file."""
