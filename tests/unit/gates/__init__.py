"""The teardown gate: when a box may go, and that nothing opens it otherwise."""
