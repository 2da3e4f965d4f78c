"""Core data types: frozen data, no I/O."""
