"""Landlords rent, park and release boxes."""
