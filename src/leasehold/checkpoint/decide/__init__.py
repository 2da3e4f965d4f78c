"""When to save, save requests, and the progress lines in the log."""
