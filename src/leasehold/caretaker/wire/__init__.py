"""One connection from home, and refusals of requests."""
