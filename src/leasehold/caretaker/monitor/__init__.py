"""Sample the box and the training, keep the samples in fixed-size rings, raise alarms."""
