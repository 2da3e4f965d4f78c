"""Zip archives, read by one strict interpretation."""
