"""Find processes in a run's folders: leftovers of its attempts, writers, readers, and those that only work there.

A mark in the environment is lost on the way through `env -i`, docker, `sudo -i` or an old tmux server. So processes are
found by what they cannot shed: their ancestors, the unit that systemd put them in, what they have open for
writing or mapped to write, and where they work. One look reads all of /proc; it is taken before a new attempt, before a
seal and for the teardown gate, always in a child or for a request.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.process.process_table import ProcessTable
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, read_link, read_small
from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.run.processes import boot_id, is_alive, marked

from .run_paths import RunPlaces

OURS, WRITES, STANDS, READS = "ours", "writes", "stands", "reads"

_KERNEL = 2  # the parent of kernel threads
_NAMED = 20
_MAPS_BYTES = 8 << 20
_READ_BYTES = 1 << 16
_EXIT_S = 1.0  # the longest time between losing its command line and being gone


class Occupant(NamedTuple):
    """One process, what it does there, and how it was found."""

    pid: int
    started: str
    user_id: int
    command: str
    kind: str
    how: str

    def as_dict(self) -> Dict[str, Any]:
        """Format for the wire and for pipes."""
        return dict(self._asdict(), boot=boot_id())


class Found(NamedTuple):
    """Result of one look; `unread` are younger than the run, and may not be inspected."""

    occupants: List[Occupant]
    unread: List[str]


def look_around(folder: RunFolder, cell: str = "", caretaker: int = 0, trainers: Iterable[int] = ()) -> Found:
    """Look at every process; with a cell, for its folders alone. `trainers` and all their descendants are expected.

    `caretaker` is the pid that orphans of ours have for a parent; 0 where it has ended.
    """
    looker = _Looker(folder, cell)
    table = looker.table
    right = {pid for pid in trainers if pid in table.entries}
    ours = looker.ours(caretaker, right)
    found, unread = [], []
    born_s = _age_s(folder.plan)
    carries = set(table.above(os.getpid()))
    for pid, entry in table.entries.items():
        if pid in carries or entry.parent == _KERNEL or looker.is_machinery(pid):
            continue
        if right.intersection([pid, *table.above(pid)]):
            continue
        seen = looker.look(pid)
        hidden = seen is None and entry.age_s < born_s
        kind, how = (OURS, ours[pid]) if pid in ours else seen or ("", "")
        if not (kind or hidden) or _ends(pid, entry.started):
            continue
        if hidden:
            unread.append("%s (pid %d, user %d)" % (table.short_name(pid), pid, entry.user_id))
        if kind:
            found.append(Occupant(pid, entry.started, entry.user_id, table.command(pid), kind, how))
    return Found(found, unread)


def of_cell(folder: RunFolder, cell: str, others: Iterable[int] = ()) -> Dict[str, Any]:
    """Return what keeps a cell from its next step, in a child of the caretaker: {ours, writers} without harmless ones.

    `others` are live trainers of other cells. While there are any, an orphan without a trace of a cell may be theirs.
    """
    alive = list(others)
    found = look_around(folder, cell, 0 if alive else os.getppid(), alive).occupants
    cleared = cleared_on(folder)
    listed = [one for one in found if (one.pid, one.started) not in cleared]
    return {
        kind: [one.as_dict() for one in listed if one.kind == kind][:_NAMED] for kind in (OURS, WRITES)
    }  # fmt: skip


def cleared_on(folder: RunFolder) -> Set[Tuple[int, str]]:
    """Return the processes that a person called harmless, unless the machine was restarted since."""
    listed = (read_json(folder.cleared) or {}).get("processes")
    here = boot_id()
    items = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {(int(one["pid"]), str(one["started"])) for one in items if one.get("boot") == here}


def say(occupants: Iterable[Dict[str, Any]]) -> str:
    """Format them in a line."""
    return "; ".join("pid %(pid)s (%(command)s) %(how)s" % one for one in list(occupants)[:3])


class _Looker:
    """One look: the processes as they were, and the folders that count."""

    def __init__(self, folder: RunFolder, cell: str) -> None:
        self.table = ProcessTable()
        self._folder = folder
        self._cell = cell
        self._places = RunPlaces(folder, cell)
        self._space = read_link("/proc/self/ns/mnt")
        self._parcels = os.path.realpath(folder.root) + "/caretaker/"
        self._main = own_argv()[3]

    def ours(self, caretaker: int, right: Set[int]) -> Dict[int, str]:
        """Find what our attempts left, however it was started: pid -> how it is known."""
        found = {one.pid: "carries this run's mark" for one in marked(self._folder.mark(self._cell))}
        unit = b"leasehold-" + sha256(self._folder.path.encode())[:12].encode() + b".service"
        for pid, entry in self.table.entries.items():
            if caretaker and entry.parent == caretaker and pid not in right:
                found.update((below, "was started by an attempt that has ended") for below in self._with_all_below(pid))
            elif not right and unit in read_small("/proc/%d/cgroup" % pid, _READ_BYTES):
                found.setdefault(pid, "belongs to the unit %s" % unit.decode())
        return {pid: how for pid, how in found.items() if pid in self.table.entries}

    def is_machinery(self, pid: int) -> bool:
        """Return whether it is a process of ours: a caretaker, a keeper, a connection, or a child of one of these."""
        argv = [os.fsdecode(word) for word in read_small("/proc/%d/cmdline" % pid, _READ_BYTES).split(b"\0")[:5]]
        return pid == os.getpid() or any(
            word == self._main or word.startswith(self._parcels) and word.endswith("/__main__.py") for word in argv[1:]
        )

    def look(self, pid: int) -> Optional[Tuple[str, str]]:
        """Return what a process does in the folders: (kind, how), or ("", ""); None when it may not be inspected."""
        place = "/proc/%d" % pid
        try:
            numbers = os.listdir(place + "/fd")
            apart = bool(self._space) and os.readlink(place + "/ns/mnt") != self._space
        except FileNotFoundError:
            return "", ""
        except OSError:
            return None
        reads = folder = ""
        for number in numbers:
            link = "%s/fd/%s" % (place, number)
            path = self._places.of_link(link, apart)
            if path and _writable("%s/fdinfo/%s" % (place, number)):
                area = path.split("/")
                of_an_attempt = area[0] == "cells" and area[-1].split(" ")[0] in ("log", "lock")
                return (OURS if of_an_attempt else WRITES), "has %s open for writing" % path
            reads = reads or path
            folder = folder or (path if path and os.path.isdir(link) else "")
        mapped = self._places.of_mapping(read_small(place + "/maps", _MAPS_BYTES), apart)
        if mapped:
            return WRITES, "has %s mapped for writing" % mapped
        stands = self._places.of_link(place + "/cwd", apart)
        if (stands or folder) and not _terminal(place):
            how = "works in %s" % stands.rstrip("/") if stands else "holds the folder %s open" % folder
            return STANDS, "%s, without a terminal" % how
        if stands or reads:
            return READS, "works in %s" % stands.rstrip("/") if stands else "reads %s" % reads
        return "", ""

    def _with_all_below(self, pid: int) -> List[int]:
        if self.is_machinery(pid):
            return []
        found, parents = [pid], [pid]
        while parents:
            parent = parents.pop()
            below = [one.pid for one in self.table.entries.values() if one.parent == parent]
            parents += below
            found += below
        return found


def _ends(pid: int, started: str) -> bool:
    """Return whether it has ended: an exiting keeper has no command line, and would be taken for a trainer's orphan."""
    until = time.monotonic() + _EXIT_S
    while is_alive(pid, started):
        if read_small("/proc/%d/cmdline" % pid, _READ_BYTES) or time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _writable(fdinfo: str) -> bool:
    """Return whether a descriptor was opened for writing; unknown counts as yes, unless it is closed by now."""
    try:
        with open(fdinfo, "rb") as file:
            lines = dict(line.split(b":", 1) for line in file.read().split(b"\n") if b":" in line)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return int(lines.get(b"flags", b"2"), 8) & os.O_ACCMODE != os.O_RDONLY


def _terminal(place: str) -> bool:
    text = read_small(place + "/stat", _READ_BYTES)
    return b")" in text and text[text.rindex(b")") + 2 :].split()[4] != b"0"


def _age_s(path: str) -> float:
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return float("inf")
