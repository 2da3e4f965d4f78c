"""Format sizes, durations and times: one way for each, on both ends."""

from __future__ import annotations

import time

GIB = 1 << 30
_BINARY = (("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SPANS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def say_bytes(count: float) -> str:
    """Format a number of bytes in decimal units: files, disks, transfers."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return "%.0f %s" % (count, unit) if unit == "B" else "%.1f %s" % (count, unit)
        count /= 1000
    return "%.2f TB" % count


def say_gib(count: float) -> str:
    """Format a number of bytes in GiB, as the meters of cards and memory show them."""
    return "%.0f GiB" % (count / GIB) if count >= 10 * GIB else "%.1f GiB" % (count / GIB)


def say_binary(count: int) -> str:
    """Format a number of bytes in binary units with two places, as torch prints them."""
    for unit, size in _BINARY:
        if count >= size:
            return "%.2f %s" % (count / size, unit)
    return "%d bytes" % count


def count(things: float, word: str) -> str:
    """Format a count with its noun: 1 file, 2,000 files."""
    return "{:,} {}{}".format(int(things), word, "" if things == 1 else "s")


def ago(seconds: float) -> str:
    """Format a duration in its two largest units."""
    whole = int(max(0, seconds))
    for size, unit, below, small in _SPANS:
        if whole >= size:
            rest = whole % size // below
            return "%d %s" % (whole // size, unit) + (" %d %s" % (rest, small) if rest else "")
    return "%d s" % whole


def utc_minute(unix: float) -> str:
    """Format a time to the minute, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix))


def utc_day(unix: float) -> str:
    """Format a date, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(unix))


def utc_clock(unix: float) -> str:
    """Format a time of day to the minute, in UTC."""
    return time.strftime("%H:%M UTC", time.gmtime(unix))


def local_second(unix: float) -> str:
    """Format a time to the second, in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))


def local_day(unix: float) -> str:
    """Format a date in this machine's time zone."""
    return time.strftime("%Y-%m-%d", time.localtime(unix))
