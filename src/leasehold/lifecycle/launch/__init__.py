"""Put a run on a box and start it there."""
