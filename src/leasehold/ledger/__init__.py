"""The home's append-only record: events in SQLite, read through a rebuildable projection."""
