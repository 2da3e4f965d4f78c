"""Plans, receipts, verdicts, and the known state of a run."""
