"""When to save, who asked for it, and what the log says."""
