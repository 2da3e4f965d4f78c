"""Records: what a command was asked for and how it ended, and the parts of a sweep."""
