"""Our readers beside three public scanners, over the scanners' own test files and valid files of real libraries."""
