"""The lease command."""
