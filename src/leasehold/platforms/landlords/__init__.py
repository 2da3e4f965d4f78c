"""Who rents, parks and releases boxes."""
