"""The gates before a launch: plan, audit, environment, smoke."""
