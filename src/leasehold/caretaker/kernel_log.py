"""What the kernel said since a moment, where it may be read: kills for memory of our own, and Xid lines."""

from __future__ import annotations

import os
import re
from typing import Iterable, List, NamedTuple, Optional

_PATH = "/dev/kmsg"
_MOST_RECORDS = 100000
_RECORD_BYTES = 8192
_KILLED = re.compile(r"Kill(?:ed)? process (\d{1,10})\b")
_WANTED = re.compile(r"NVRM: Xid|Kill(?:ed)? process|oom-kill:|out of memory|fallen off the bus", re.IGNORECASE)


class Lines(NamedTuple):
    """What concerns us of the kernel's log."""

    readable: bool
    ours: List[str]  # kills for memory that name a process of ours
    cards: List[str]  # what the driver said; which card is whose cannot be told

    @property
    def text(self) -> bytes:
        """Spell for the matcher."""
        return "".join(line + "\n" for line in [*self.ours, *self.cards]).encode("utf-8", "replace")


def since(up_s: Optional[float], pids: Iterable[int], path: str = _PATH) -> Lines:
    """Read the lines after so many seconds of uptime; without a moment none can be told to be new."""
    if up_s is None:
        return Lines(False, [], [])
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return Lines(False, [], [])
    try:
        records = _records(fd)
    finally:
        os.close(fd)
    return sort(records, up_s, pids)


def sort(records: Iterable[str], up_s: float, pids: Iterable[int]) -> Lines:
    """Keep what is new and ours of records spelled `level,number,microseconds,flags;text`."""
    known = {str(pid) for pid in pids if pid}
    found = Lines(True, [], [])
    for record in records:
        head, _, text = record.partition(";")
        words = head.split(",")
        if len(words) < 3 or not words[2].isdigit() or int(words[2]) / 1e6 < up_s or not _WANTED.search(text):
            continue
        killed = _KILLED.search(text)
        if "Xid" in text or "bus" in text:
            found.cards.append(text.splitlines()[0][:300])
        elif killed and killed.group(1) in known:
            found.ours.append(text.splitlines()[0][:300])
    return found


def _records(fd: int) -> List[str]:
    records: List[str] = []
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(fd, _RECORD_BYTES)
        except BrokenPipeError:  # overwritten while we read: the next record is there
            continue
        except OSError:  # nothing more for now, or not for us
            break
        if not record:
            break
        records.append(record.decode("utf-8", "replace"))
    return records
