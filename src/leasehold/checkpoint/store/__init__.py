"""Checkpoints on disk: write, list, prune, restore."""
