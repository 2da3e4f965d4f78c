"""From training state to bytes and back."""
