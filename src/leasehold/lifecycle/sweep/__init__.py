"""Sweeps: many cells of one job, every one accounted for."""
