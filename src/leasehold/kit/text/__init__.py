"""Text: progress lines, redaction, terminal safety, sizes and times."""
