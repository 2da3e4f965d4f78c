"""Tables both ends read: channels, trackers, download sources, environment rules."""
