"""Code both ends share: stdlib only, Python 3.8 and up, imports nothing else of ours."""
