"""Simulated landlords, so that a whole run can be rehearsed without money."""
