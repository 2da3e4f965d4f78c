"""PyTorch files: the zip format and the one before it."""
