"""The nouns of the house: frozen data, no I/O."""
