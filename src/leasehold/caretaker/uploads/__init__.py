"""Content-addressed storage on the box for the code and data that homes upload."""
