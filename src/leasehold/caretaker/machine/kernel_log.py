"""What the kernel said, where this user may read it: kills for memory of our own, and Xid lines."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

_PATH = "/dev/kmsg"
_MOST_RECORDS = 200000
_MOST_NEW = 500
_RECORD_BYTES = 8192
_KEPT = 50
_NO_TOOL = "dmesg is not installed"
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+),?\s*([^\n]*)")
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
    records, problem = _records(path)
    return Lines(False, [], []) if problem else sort(records, up_s, pids)


def xids(path: str = _PATH) -> Dict[str, Any]:
    """List Xid lines since boot, or say why the log cannot be read: then nobody can clear the card."""
    lines, problem = _dmesg()  # asks the system call where there is no /dev/kmsg, and that where it may
    if problem == _NO_TOOL:
        lines, second = _records(path)
        problem = "%s; %s" % (problem, second) if second else ""
    hits = [hit for hit in map(_XID.search, lines) if hit]
    found = [{"bus": hit.group(1).lower(), "xid": int(hit.group(2)), "text": hit.group(3)[:200]} for hit in hits]
    return {"readable": not problem, "problem": problem, "xids": found[-_KEPT:], "count": len(found)}


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


class XidTail:
    """The Xid lines that come from now on; containers may often not read them."""

    def __init__(self, path: str = _PATH) -> None:
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def readable(self) -> bool:
        """Whether an Xid would be heard at all."""
        return self._fd >= 0

    def new(self) -> List[Tuple[str, int]]:
        """Take (bus, code) of the lines since the last call; does not wait."""
        try:
            records = list(_read(self._fd, _MOST_NEW)) if self.readable else []
        except OSError:
            self.close()
            return []
        hits = (_XID.search(record) for record in records)
        return [(hit.group(1).lower(), int(hit.group(2))) for hit in hits if hit]

    def close(self) -> None:
        """Let the log go."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _records(path: str) -> Tuple[List[str], str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return [], "%s: %s" % (path, error.strerror)
    try:
        return list(_read(fd, _MOST_RECORDS)), ""
    except OSError as error:
        return [], "%s: %s" % (path, error.strerror)
    finally:
        os.close(fd)


def _read(fd: int, most: int) -> Iterator[str]:
    """Yield the records that are there, one a read."""
    for _ in range(most):
        try:
            record = os.read(fd, _RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the ring overwrote what we were about to read: go on behind it
            continue
        if not record:
            return
        yield record.decode("utf-8", "replace")


def _dmesg() -> Tuple[List[str], str]:
    import shutil  # both lazily: whoever only follows the log stays small
    import subprocess

    tool = shutil.which("dmesg")
    if tool is None:
        return [], _NO_TOOL
    try:
        done = subprocess.run([tool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], "dmesg: %s" % error
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        return [], said.strip()[:200] or "dmesg exited with %d" % done.returncode
    return said.splitlines(), ""
