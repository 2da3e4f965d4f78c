"""Journal events as sentences."""
