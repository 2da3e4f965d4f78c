"""What starts work detached and observes it."""
