"""Charts: braille on a terminal, SVG in files."""
