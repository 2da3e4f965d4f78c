"""Checkpoints as a training script meets them: real processes, killed for real."""
