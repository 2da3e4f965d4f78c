"""The nouns: what parses, what is refused and how, what hashes to what."""
