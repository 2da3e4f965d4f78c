"""Survey a box's disks: how full each is, what lies there by class, which processes have it open. Home decides."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Set, Tuple

from leasehold.caretaker.machine import limits
from leasehold.caretaker.process.process_table import ProcessTable
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import state_of
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.atomic import read_json

from .classes import cache_links, known_places
from .open_files import OpenFiles
from .quarantine import stamps
from .units import Unit
from .walk import Bounds, Walk

_UNITS_A_FRAME = 200
_FOLDER_BYTES = 64 << 20
_FOLDER_INODES = 2000
_FOLDER_SHARE = 0.005  # of what is used
_LONGEST_S = 3600.0


def survey(request: Request) -> None:
    """Answer progress, then units in batches, then each tier with its sums."""
    limit_s = max(0.0, min(_LONGEST_S, float(request.args.get("limit_s", 60.0))))
    home = os.path.realpath(os.path.expanduser("~"))
    root = os.path.realpath(request.root)
    paths = [str(path) for path in request.args.get("paths") or ()]
    known = known_places({**os.environ, **_named(request)}, home)
    tops = outermost([request.root, home, *paths, *known])
    deadline = time.monotonic() + limit_s
    opened = OpenFiles()
    table = ProcessTable()
    tiers = []
    for number, top in enumerate(tops):
        share_s = (deadline - time.monotonic()) / (len(tops) - number)  # no path may use up the others' time
        walk = Walk(root, known, _bounds(top, time.monotonic() + max(0.0, share_s)), request.reply)
        walk.run(top)
        _send_units(request, top, walk, opened)
        tiers.append(_tier(top, walk, opened, table))
    request.reply(
        {
            "tiers": tiers,
            "asked": [limits.disk(path) for path in dict.fromkeys([request.root, *paths])],
            "links": cache_links(home, known),
            "quarantines": stamps(root),
            "runs": _runs(root),
            "trends": _trends(root),
            "root": root,
            "user_id": os.geteuid(),
            "unread_processes": opened.unread,
            "now_unix": time.time(),
        }
    )


def outermost(paths: List[str]) -> List[str]:
    """Return the paths to walk: each part of a filesystem once, however many of the paths lie in it."""
    real = sorted({os.path.realpath(path) for path in paths if os.path.isdir(path)}, key=len)
    kept: List[Tuple[str, int]] = []
    for path in real:
        device = os.stat(path).st_dev
        inside = [top for top, other in kept if other == device and (path + "/").startswith(top.rstrip("/") + "/")]
        if not inside:
            kept.append((path, device))
    return [path for path, _ in kept]


def _named(request: Request) -> Dict[str, str]:
    """Return the platform's cache variables as home names them; they win over this connection's environment."""
    said = request.args.get("variables") or {}
    return {str(name): str(value) for name, value in said.items()}


def _bounds(top: str, deadline: float) -> Bounds:
    figures = os.statvfs(top)
    used_bytes = (figures.f_blocks - figures.f_bfree) * figures.f_frsize
    used_inodes = figures.f_files - figures.f_ffree
    return Bounds(
        deadline,
        max(_FOLDER_BYTES, int(_FOLDER_SHARE * used_bytes)),
        max(_FOLDER_INODES, int(_FOLDER_SHARE * used_inodes)),
    )


def _send_units(request: Request, top: str, walk: Walk, opened: OpenFiles) -> None:
    batch: List[Dict[str, Any]] = []
    for unit in walk.tally.units():
        batch.append(dict(unit.as_dict(), tier=top, open_by=_users(unit, opened)))
        if len(batch) == _UNITS_A_FRAME:
            request.reply({"units": batch})
            batch = []
    if batch:
        request.reply({"units": batch})


def _users(unit: Unit, opened: OpenFiles) -> List[int]:
    return opened.users_of(unit.path, (unit.identity[0], unit.identity[1]))[:20]


def _tier(top: str, walk: Walk, opened: OpenFiles, table: ProcessTable) -> Dict[str, Any]:
    devices: Set[int] = {os.stat(top).st_dev}
    held = opened.deleted(devices)
    return {
        **limits.disk(top),
        "totals": walk.tally.totals,
        "entries": walk.tally.entries,
        "complete": walk.complete,
        "stopped_at": walk.stopped_at,
        "rough": walk.tally.rough,
        "unread": walk.unread,
        "unread_count": walk.unread_count,
        "deleted_open": [dict(item, commands=[table.command(pid) for pid in item["pids"][:3]]) for item in held],
    }


def _trends(root: str) -> List[Dict[str, Any]]:
    """Read from live runs' patrols when each disk will be full, at the rate they measured."""
    folder = os.path.join(root, "active")
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        status = read_json(os.path.join(folder, name, "status.json")) or {}
        if status.get("state") != "running":
            continue
        for disk in (status.get("readings") or {}).get("disks") or ():
            facts = {key: disk[key] for key in ("bytes_full_in_s", "inodes_full_in_s") if key in disk}
            if facts:
                mount = limits.mount_of(os.path.realpath(str(disk["path"])))[0]
                found.append(dict(facts, run=name, mount=mount))
    return found


def _runs(root: str) -> Dict[str, Any]:
    folder = os.path.join(root, "active")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {}
    for name in names:
        place = RunFolder(os.path.join(folder, name))
        if os.path.exists(place.plan):
            seen = state_of(place)
            found[name] = {"state": seen["state"], "terminal": seen["terminal"], "caretaker": seen["caretaker_alive"]}
    return found
