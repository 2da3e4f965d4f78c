"""The home's ledger: append-only events, a projection that can be thrown away, many writers."""
