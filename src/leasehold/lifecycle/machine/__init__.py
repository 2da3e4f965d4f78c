"""Connect to a box, and determine which machine it is."""
