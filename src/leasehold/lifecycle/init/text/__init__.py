"""Read a project's files within bounds: sources, paths, shell words."""
