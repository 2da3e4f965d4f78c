"""A job file: keys, cells, placeholders, parsers of its parts."""
