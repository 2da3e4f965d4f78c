"""Convert jobs of SkyPilot, dstack and Slurm."""
