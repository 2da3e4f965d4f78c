"""The code that travels: what belongs to it, its hash, its job file, its data."""
