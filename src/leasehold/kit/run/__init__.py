"""A run's state from its journal, and process identity."""
