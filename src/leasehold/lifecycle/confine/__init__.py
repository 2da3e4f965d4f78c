"""Check in confined child processes that artifacts load."""
