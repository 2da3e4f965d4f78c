"""Frames between home and box, and opening an HTTP address."""
