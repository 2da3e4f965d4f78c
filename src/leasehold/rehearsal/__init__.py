"""Simulated landlords, so that a whole life can be lived without money."""
