"""Formats without code: JSON, lines, NumPy, safetensors, tar."""
