"""Maintenance on request: disks, cards, diagnosis, a shell on the box, forgotten runs."""
