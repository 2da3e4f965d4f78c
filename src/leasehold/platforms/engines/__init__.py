"""Engines start work detached and observe it."""
