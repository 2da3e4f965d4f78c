"""Find which files the code writes, and promise them as artifacts."""
