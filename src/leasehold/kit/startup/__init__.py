"""Stand-ins that make short processes start faster."""
