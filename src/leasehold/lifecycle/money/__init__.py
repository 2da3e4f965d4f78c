"""Meters, budgets, and leases that bill without a live run."""
