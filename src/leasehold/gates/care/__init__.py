"""Judgements about disks, cards and files of a box."""
