"""What the kernel said of the cards: Xid lines, where this user may read them."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Tuple

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+),?\s*(.*)")
_MOST_LINES = 200_000
_MOST_NEW = 500
_RECORD_BYTES = 8192
_KEPT = 50


def xids(path: str = "/dev/kmsg") -> Dict[str, Any]:
    """List Xid lines since boot, or say why the log cannot be read: then nobody can clear the card."""
    lines, problem = _records(path)
    if problem:
        lines, second = _dmesg()
        problem = "%s; %s" % (problem, second) if second else ""
    found: List[Dict[str, Any]] = []
    for line in lines:
        hit = _XID.search(line)
        if hit:
            found.append({"bus": hit.group(1).lower(), "xid": int(hit.group(2)), "text": hit.group(3)[:200]})
    return {"readable": not problem, "problem": problem, "xids": found[-_KEPT:], "count": len(found)}


class XidTail:
    """The Xid lines that come from now on; containers may often not read them."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
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
            lines = list(_lines(self._fd, _MOST_NEW)) if self.readable else []
        except OSError:
            self.close()
            return []
        hits = (_XID.search(line) for line in lines)
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
        return list(_lines(fd, _MOST_LINES)), ""
    except OSError as error:
        return [], "%s: %s" % (path, error.strerror)
    finally:
        os.close(fd)


def _lines(fd: int, most: int) -> Iterator[str]:
    """Yield the lines that are there; each read gives one record."""
    for _ in range(most):
        try:
            record = os.read(fd, _RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the ring overwrote what we were about to read: go on behind it
            continue
        if not record:
            return
        yield from record.decode("utf-8", "replace").splitlines()


def _dmesg() -> Tuple[List[str], str]:
    import shutil  # both lazily: whoever only follows the log stays small
    import subprocess

    tool = shutil.which("dmesg")
    if tool is None:
        return [], "dmesg is not installed"
    try:
        done = subprocess.run([tool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], "dmesg: %s" % error
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        return [], said.strip()[:200] or "dmesg exited with %d" % done.returncode
    return said.splitlines(), ""
