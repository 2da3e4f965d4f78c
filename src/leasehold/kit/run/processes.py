"""Identify a process: a pid alone is not an identity, a pid with its start time is."""

from __future__ import annotations

import os
from typing import AbstractSet, Dict, List, NamedTuple, Optional

MARK = "LEASE_ATTEMPT_ID"
_PIECE_BYTES = 1 << 18


class Process(NamedTuple):
    """A process as the kernel identifies it."""

    pid: int
    group: int
    session: int
    started: str
    state: str

    @property
    def gone(self) -> bool:
        """Return whether it is dead and merely not yet reaped."""
        return self.state in ("Z", "X")


def look(pid: int) -> Optional[Process]:
    """Return the process with this pid, or None."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return _look_without_proc(pid) if not os.path.isdir("/proc/self") else None
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[2]), int(fields[3]), fields[19].decode(), fields[0].decode())


def is_alive(pid: int, started: str) -> bool:
    """Return whether this very process still runs."""
    process = look(pid)
    return process is not None and process.started == started and not process.gone


def boot_id() -> str:
    """Return the id of this boot of the machine; empty if the system does not report it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def marked(mark: str) -> List[Process]:
    """Find live processes that carry our attempt mark (or a mark below it) in their environment."""
    needle = ("%s=%s" % (MARK, mark)).encode()
    found = []
    for pid in _pids():
        process = look(pid) if _has_mark(pid, needle) else None  # checked first, because few match
        if process is not None and not process.gone and pid != os.getpid():
            found.append(process)
    return found


def in_groups(groups: AbstractSet[int]) -> List[Process]:
    """Find live members of process groups."""
    processes = [look(pid) for pid in _pids()]
    return [p for p in processes if p is not None and p.group in groups and not p.gone]


def descendants(pid: int) -> List[Process]:
    """Find live processes below this one, whatever environment, session or group they set for themselves."""
    children: Dict[int, List[int]] = {}
    for one in _pids():
        try:
            with open("/proc/%d/stat" % one, "rb") as file:
                text = file.read()
        except OSError:
            continue
        children.setdefault(int(text[text.rindex(b")") + 2 :].split()[1]), []).append(one)
    found: List[Process] = []
    parents = [pid]
    while parents:
        below = children.pop(parents.pop(), [])
        parents += below
        found += [process for process in map(look, below) if process is not None and not process.gone]
    return found


def session_cpu_s(session: int) -> Optional[float]:
    """Add up the processor time of a session's live processes; None if none can be read."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    total, found = 0.0, False
    for pid in _pids():
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:
                text = file.read()
        except OSError:
            continue
        fields = text[text.rindex(b")") + 2 :].split()
        if int(fields[3]) == session:
            total += (int(fields[11]) + int(fields[12])) * tick_s
            found = True
    return total if found else None


def environment(pid: int) -> Dict[str, str]:
    """Read a process's starting environment; empty when it may not be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            items = file.read().split(b"\0")
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in items if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _has_mark(pid: int, needle: bytes) -> bool:
    try:
        fd = os.open("/proc/%d/environ" % pid, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        text = b""
        for piece in iter(lambda: os.read(fd, _PIECE_BYTES), b""):
            text += piece
    except OSError:
        return False
    finally:
        os.close(fd)
    if needle not in text:
        return False
    return any(item == needle or item.startswith(needle + b"/") for item in text.split(b"\0"))


def _pids() -> List[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _look_without_proc(pid: int) -> Optional[Process]:
    import subprocess

    asked = ["ps", "-o", "pgid=,sess=,state=,lstart=", "-p", str(pid)]
    answer = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    words = answer.stdout.decode("utf-8", "replace").split(None, 3)
    if len(words) < 4:
        return None
    session = int(words[1]) if words[1].isdigit() else int(words[0])
    return Process(pid, int(words[0]), session, words[3].strip(), words[2][:1])
