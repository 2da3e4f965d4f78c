"""Bring results home, verify them, and keep the evidence beside them."""
