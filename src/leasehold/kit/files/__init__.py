"""Files: atomic writes, safe paths, globs, hashes, journals, manifests."""
