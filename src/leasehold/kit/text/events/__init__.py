"""Every journal event and gate outcome as a sentence: the screens at home and the notices from the box use the same."""
