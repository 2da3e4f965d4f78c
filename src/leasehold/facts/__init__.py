"""Platform facts as dated data, and their loader."""
