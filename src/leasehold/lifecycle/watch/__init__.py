"""Follow a run: its events, curves and readings, and the duties beside a watch."""
