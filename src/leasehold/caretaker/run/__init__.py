"""A run's folder on the box: layout, ownership, clocks, secrets, damaged journals."""
