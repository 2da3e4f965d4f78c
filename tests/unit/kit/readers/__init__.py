"""Readers of artifacts from untrusted boxes: what loads, what is refused, and that nothing runs."""
