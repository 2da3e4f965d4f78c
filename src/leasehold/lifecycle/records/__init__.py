"""Orders and sweep parts as the ledger records them."""
