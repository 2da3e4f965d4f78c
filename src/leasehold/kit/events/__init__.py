"""Sentences: every journal event and gate outcome, for screens and notices."""
