"""Gates before a launch."""
