"""Text: progress lines, redaction, terminal safety."""
