"""Plans, receipts, verdicts, and what is known of a run."""
