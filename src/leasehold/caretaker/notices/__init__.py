"""Send notices to people: queue, wording, vendors, short-lived senders."""
