"""The stages, one at a time, against a fake box with real files."""
