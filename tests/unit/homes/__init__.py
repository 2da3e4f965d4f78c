"""Homes that are not Linux."""
