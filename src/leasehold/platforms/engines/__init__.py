"""Ways to start work detached and observe it."""
