"""Platform facts: complete, dated and sourced, or not loaded."""
