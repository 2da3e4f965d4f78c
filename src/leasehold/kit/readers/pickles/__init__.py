"""A pickle machine that builds inert values only."""
