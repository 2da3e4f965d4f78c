"""Read the kernel log, where this user may: out-of-memory kills of our own processes, and Xid lines."""

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
    """The lines of the kernel's log that concern us."""

    readable: bool
    ours: List[str]  # out-of-memory kills that name a process of ours
    cards: List[str]  # what the driver reported; which user's card it is about is unknown

    @property
    def text(self) -> bytes:
        """Format for the matcher."""
        return "".join(line + "\n" for line in [*self.ours, *self.cards]).encode("utf-8", "replace")


def since(up_s: Optional[float], pids: Iterable[int], path: str = _PATH) -> Lines:
    """Read the lines after so many seconds of uptime; without a time, no line is known to be new."""
    if up_s is None:
        return Lines(False, [], [])
    records, problem = _records(path)
    return Lines(False, [], []) if problem else sort(records, up_s, pids)


def xids(path: str = _PATH) -> Dict[str, Any]:
    """List Xid lines since boot, or return why the log cannot be read: then nobody can clear the card."""
    lines, problem = _dmesg()  # uses the system call where there is no /dev/kmsg and the call is permitted
    if problem == _NO_TOOL:
        lines, second = _records(path)
        problem = "%s; %s" % (problem, second) if second else ""
    hits = [hit for hit in map(_XID.search, lines) if hit]
    found = [{"bus": hit.group(1).lower(), "xid": int(hit.group(2)), "text": hit.group(3)[:200]} for hit in hits]
    return {"readable": not problem, "problem": problem, "xids": found[-_KEPT:], "count": len(found)}


def sort(records: Iterable[str], up_s: float, pids: Iterable[int]) -> Lines:
    """Keep the new lines that are ours, of records `level,number,microseconds,flags;text`."""
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
    """Follows the Xid lines from now on; containers often may not read them."""

    def __init__(self, path: str = _PATH) -> None:
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def readable(self) -> bool:
        """Return whether an Xid would be noticed at all."""
        return self._fd >= 0

    def new(self) -> List[Tuple[str, int]]:
        """Return (bus, code) of the lines since the last call, without waiting."""
        try:
            records = list(_read(self._fd, _MOST_NEW)) if self.readable else []
        except OSError:
            self.close()
            return []
        hits = (_XID.search(record) for record in records)
        return [(hit.group(1).lower(), int(hit.group(2))) for hit in hits if hit]

    def close(self) -> None:
        """Close the log."""
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
    """Yield the available records, one per read."""
    for _ in range(most):
        try:
            record = os.read(fd, _RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the ring overwrote the next record: continue behind it
            continue
        if not record:
            return
        yield record.decode("utf-8", "replace")


def _dmesg() -> Tuple[List[str], str]:
    import shutil  # both lazily: a process that only follows the log stays small
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
