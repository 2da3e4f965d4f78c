"""One connection from home, and how a request is refused."""
