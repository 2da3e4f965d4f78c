"""Checkpoints: single files, sharded folders, DCP."""
