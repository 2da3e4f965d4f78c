"""One module a command: call the API, render its answer."""
