"""Leave a box and arrive on another: the fence of a run that goes on elsewhere, and states on their way in."""
