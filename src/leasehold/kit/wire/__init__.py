"""Frames between home and box."""
