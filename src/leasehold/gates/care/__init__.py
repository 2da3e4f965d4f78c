"""Pure checks of a box's disks, GPUs and files."""
