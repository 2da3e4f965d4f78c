"""The code that is sent to a box: which files belong to it, its hash, its job file, its data."""
