"""Seal, hash, copy, send and reread what a run produced."""
