"""What state a run is in, and which processes work in its folders."""
