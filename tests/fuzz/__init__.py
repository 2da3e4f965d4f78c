"""Readers against bytes nobody thought of: targets, kept seeds, and the coverage-guided run of `make bench`."""
