"""Pure checks: readings in, a verdict out."""
