"""Resume runs after the box was restarted."""
