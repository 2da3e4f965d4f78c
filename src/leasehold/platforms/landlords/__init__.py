"""Adapters that rent, park and release boxes."""
