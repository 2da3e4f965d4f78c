"""From evidence to a class of failure and its remedy."""
