"""The teardown gate."""
