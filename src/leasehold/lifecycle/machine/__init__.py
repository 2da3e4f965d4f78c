"""Connect to a box, and tell which machine it is."""
