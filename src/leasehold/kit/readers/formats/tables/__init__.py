"""Column files: Parquet and Arrow."""
