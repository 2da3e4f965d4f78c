"""Stand-ins for slow imports, so that short processes start sooner."""
