"""Report on a sweep: status, table, metrics, curves, estimated end."""
