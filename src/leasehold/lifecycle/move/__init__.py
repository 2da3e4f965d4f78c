"""Move a run to another box: fence the old one, find the newest valid state, lay it before the next attempt."""
