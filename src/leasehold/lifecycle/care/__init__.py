"""Maintenance on request: disks, GPUs, diagnosis, a shell on the box, forgotten runs."""
