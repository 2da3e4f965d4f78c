"""Bounded files, results of reading, counts of numbers that are not finite."""
