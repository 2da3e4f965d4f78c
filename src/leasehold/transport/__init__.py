"""Duplex byte streams to a box, and the one protocol spoken over them."""
