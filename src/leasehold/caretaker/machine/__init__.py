"""The machine's limits, its kernel log, and signs of its platform."""
