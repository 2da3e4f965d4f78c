"""Object stores: an S3 client of the standard library, and the place that keeps objects in a bucket."""
