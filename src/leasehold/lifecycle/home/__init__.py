"""The home folder."""
