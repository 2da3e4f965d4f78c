"""The smoke: a short run of the job on this machine's CPU."""
