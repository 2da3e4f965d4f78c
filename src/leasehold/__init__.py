"""Run deep-learning training on GPUs that somebody else owns."""

__version__ = "0.1.0"
