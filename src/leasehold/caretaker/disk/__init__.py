"""Survey the disks of a box, and quarantine or delete what a person approved."""
