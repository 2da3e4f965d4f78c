"""Streams through `kubectl exec`: the command line, and records that prove their bytes."""
