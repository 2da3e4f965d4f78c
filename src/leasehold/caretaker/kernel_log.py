"""What the kernel said of the cards: Xid lines, where this user may read them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any, Dict, List, Tuple

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+),?\s*(.*)")
_MOST_LINES = 200_000
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


def _records(path: str) -> Tuple[List[str], str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return [], "%s: %s" % (path, error.strerror)
    lines: List[str] = []
    try:
        for _ in range(_MOST_LINES):
            try:
                record = os.read(fd, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # the ring overwrote what we were about to read: go on behind it
                continue
            if not record:
                break
            lines += record.decode("utf-8", "replace").splitlines()
    except OSError as error:
        return [], "%s: %s" % (path, error.strerror)
    finally:
        os.close(fd)
    return lines, ""


def _dmesg() -> Tuple[List[str], str]:
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
