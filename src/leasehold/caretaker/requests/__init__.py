"""What home may ask of a box: one module for each kind of request."""
