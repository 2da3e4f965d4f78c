"""Leases, meters, boxes, budgets, machines."""
