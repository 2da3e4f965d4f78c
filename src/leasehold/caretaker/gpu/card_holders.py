"""Find every process with a card's device open, and which of them are left over from work that is gone."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Set

from leasehold.caretaker.process.process_table import Entry, ProcessTable
from leasehold.caretaker.run.run_folder import runs_below
from leasehold.caretaker.status.observe import state_of
from leasehold.kit.run.processes import MARK, environment, is_alive

from . import nvidia_smi
from .nvidia_smi import Listed

YOUNG_S = 120.0  # a trainer that starts right now is not listed yet
IDLE_SHARE = 0.01  # of one core, while we watched
_INITIAL_NAMESPACE = 0xEFFFFFFC  # the kernel's fixed inode of the host's own process namespace
_SERVICES = (  # they hold devices for everybody
    "nvidia-persiste", "nv-hostengine", "nvidia-cuda-mps", "nvidia-smi", "nvidia-fabricma", "dcgm-exporter", "nvtop",
    "nvitop", "gpustat", "Xorg", "Xwayland",
)  # fmt: skip


class Sight(NamedTuple):
    """Basis of the judgement: two looks at the processes, and the driver's list."""

    before: ProcessTable
    after: ProcessTable
    waited_s: float
    listed: List[Listed]
    devices: str = "/dev"


def blind(sight: Sight) -> bool:
    """Return whether the driver's list names none of this box's processes: containers have numbers of their own."""
    return own_namespace() and not any(_cards_of(sight, item.pid) for item in sight.listed)


def own_namespace() -> bool:
    """Return whether this box has its own process namespace, as containers do."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino != _INITIAL_NAMESPACE
    except OSError:
        return True


def holders(root: str, sight: Sight, min_age_s: float = YOUNG_S) -> List[Dict[str, Any]]:
    """Describe every process that has a card open, with why it is kept or why it is a zombie."""
    table = sight.after
    found = {pid: cards for pid, cards in ((pid, _cards_of(sight, pid)) for pid in table.entries) if cards}
    listed_here = {item.pid for item in sight.listed}
    kept = _Kept(root, table, listed_here, found)
    memory: Dict[int, int] = {}
    for item in sight.listed:
        if item.used_bytes is not None:
            memory[item.pid] = memory.get(item.pid, 0) + item.used_bytes
    rows = []
    for pid in sorted(set(found) | (listed_here & set(table.entries))):
        entry = table.entries[pid]
        why_kept = kept.why(entry) or _working(entry, sight, min_age_s)
        rows.append(
            {
                "pid": pid,
                "started": entry.started,
                "age_s": round(entry.age_s, 1),
                "user_id": entry.user_id,
                "mine": entry.user_id == os.geteuid(),
                "command": table.command(pid),
                "cards": sorted(found.get(pid, ())),
                "memory_bytes": memory.get(pid),
                "listed": pid in listed_here,
                "run": kept.run_of(pid),
                "zombie": not why_kept,
                "why": why_kept or _why_zombie(entry, sight, kept.run_of(pid)),
            }
        )
    return rows


def on_cards(cards: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Add to each card the processes that the driver lists on it: pid, user, command, memory; None where unknown."""
    answer = nvidia_smi.cards(("index", "uuid"))
    uuids = {str(row.get("index")): str(row.get("uuid")) for row in answer.gpus if row}
    listed, problem = nvidia_smi.listed()
    table = ProcessTable()
    described = []
    for card in cards:
        uuid = uuids.get(str(card["index"]), "")
        mine = [item for item in listed if uuid and item.uuid == uuid]
        processes = [_occupant(item, table) for item in mine]
        described.append(dict(card, uuid=uuid, processes=None if problem or not uuid else processes))
    return described


def _occupant(item: Listed, table: ProcessTable) -> Dict[str, Any]:
    entry = table.entries.get(item.pid)
    return {
        "pid": item.pid,
        "memory_bytes": item.used_bytes,
        "here": entry is not None,
        "mine": entry is not None and entry.user_id == os.geteuid(),
        "command": table.command(item.pid) if entry else "",
    }


def end(targets: List[Dict[str, Any]], still: Iterable[Dict[str, Any]], grace_s: float) -> List[Dict[str, Any]]:
    """End targets by SIGTERM, then SIGKILL: only those still zombies by a fresh look, with the same start time."""
    fresh = {(row["pid"], row["started"]): row for row in still}
    results = []
    for target in targets:
        pid, started = int(target["pid"]), str(target["started"])
        row = fresh.get((pid, started))
        if row is None:
            results.append({"pid": pid, "did": "nothing", "why": "it is gone, or another process has its number now"})
        elif not row["zombie"]:
            results.append({"pid": pid, "did": "nothing", "why": row["why"]})
        else:
            results.append(dict(_end_one(pid, started, grace_s), pid=pid))
    return results


class _Kept:
    """Decides which processes are somebody's work, whatever they hold."""

    def __init__(self, root: str, table: ProcessTable, listed: Set[int], found: Iterable[int]) -> None:
        self._table = table
        self._listed = table.family(listed)
        self._own = {os.getpid(), *table.above(os.getpid())}
        self._marks = {pid: environment(pid).get(MARK, "") for pid in found}
        self._live_runs = _live_runs(root)
        self._known_runs = {run.mark(): run.run for run in runs_below(root)}
        live = [pid for pid, mark in self._marks.items() if self._is_live(mark)]
        self._live = table.family(live)

    def run_of(self, pid: int) -> str:
        """Return the run of ours whose mark the process carries."""
        return self._known_runs.get(self._marks.get(pid, "").split("/")[0], "")

    def why(self, entry: Entry) -> str:
        """Return why a process must not be touched; empty when none of these reasons holds."""
        if entry.user_id != os.geteuid():
            return "it belongs to user %d, not to us" % entry.user_id
        if entry.pid in self._own:
            return "it is this very connection"
        if entry.pid in self._live:
            return "it belongs to a run that goes on"
        if entry.pid in self._listed:
            return "the driver lists it, or a process it belongs with: it is a job"
        name = self._table.short_name(entry.pid)
        if any(name.startswith(service[:15]) for service in _SERVICES):
            return "%s is a service of the card" % name
        return ""

    def _is_live(self, mark: str) -> bool:
        run = mark.split("/")[0]
        return bool(mark) and (run not in self._known_runs or self._known_runs[run] in self._live_runs)


def _cards_of(sight: Sight, pid: int) -> Set[str]:
    pattern = re.compile(re.escape(sight.devices.rstrip("/")) + r"/(nvidia\d+)\Z")
    hits = (pattern.match(path) for path in sight.after.open_paths(pid))
    return {hit.group(1) for hit in hits if hit}


def _working(entry: Entry, sight: Sight, min_age_s: float) -> str:
    """Return why a process may still be at work; in a container, where lists have gaps, only idle orphans are not."""
    if entry.age_s < min_age_s:
        return "it is only %d s old; %d s is the least" % (entry.age_s, min_age_s)
    if not own_namespace():
        return ""
    if entry.parent != 1 and entry.parent in sight.after.entries:
        return "the driver's list may leave it out in a container, and its parent %d lives" % entry.parent
    earlier = sight.before.entries.get(entry.pid)
    if earlier is None or earlier.started != entry.started:
        return "it was not there when we looked first"
    used_s = (entry.cpu_ticks - earlier.cpu_ticks) / os.sysconf("SC_CLK_TCK")
    if used_s > IDLE_SHARE * max(sight.waited_s, 1.0):
        return "the driver's list may leave it out in a container, and it used %.2f s of CPU while we watched" % used_s
    return ""


def _why_zombie(entry: Entry, sight: Sight, run: str) -> str:
    said = "left over by %s, which has ended; " % run if run else ""
    if own_namespace():
        return said + "unlisted by the driver, and an orphan that did nothing for %d s" % sight.waited_s
    return said + "it has a card open and the driver lists no work of it"


def _live_runs(root: str) -> Set[str]:
    return {run.run for run in runs_below(root) if not state_of(run)["terminal"]}


def _end_one(pid: int, started: str, grace_s: float) -> Dict[str, Any]:
    for number, did, wait_s in ((signal.SIGTERM, "ended", grace_s), (signal.SIGKILL, "killed", 5.0)):
        if not is_alive(pid, started):  # right before each signal: a pid alone is no identity
            return {"did": "ended", "why": "it left by itself"}
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return {"did": "ended", "why": "it left by itself"}
        except PermissionError as error:
            return {"did": "nothing", "why": str(error)}
        if _gone(pid, started, wait_s):
            return {"did": did, "why": "by %s" % signal.Signals(number).name}
    return {"did": "nothing", "why": "it survived SIGKILL: it hangs in the driver; restart the box or container"}


def _gone(pid: int, started: str, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while is_alive(pid, started):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
