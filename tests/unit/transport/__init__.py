"""Ways to a box: what goes on a command line, and what survives a shell."""
