"""A small library of training parts."""
