"""The code on the box, piece by piece; Debian's PyPy (3.9) runs these too."""
