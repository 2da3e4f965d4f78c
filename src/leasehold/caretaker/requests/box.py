"""Requests beyond starting runs and moving files: each operation answers one request."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import List, Tuple

from leasehold.caretaker.artifacts import remains
from leasehold.caretaker.attempt.platform_shell import Outfit
from leasehold.caretaker.disk import biggest, shared_disk_probe
from leasehold.caretaker.machine import limits
from leasehold.caretaker.process.end_processes import processes_of
from leasehold.caretaker.run.request_args import count_of, folder_of, plan_of
from leasehold.caretaker.run.scrub_secrets import read_clean, read_log, redactor_of, whole_words
from leasehold.caretaker.run.secrets_folder import find_place
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import journal, manifest, rings
from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.kit.files.paths import UnsafePath, open_below
from leasehold.kit.run.processes import boot_id
from leasehold.kit.run.run_state import fold
from leasehold.kit.wire import frames

from . import box_readings
from .follow import Following, parse_logs
from .occupant_requests import occupants_of

_POLL_S = 0.05
_JOURNAL_READ_BYTES = 1 << 20
_RECORDS_A_FRAME = 500


def probe(request: Request) -> None:
    """Report identity, platform and free space of this box."""
    import platform  # only for this: it brings subprocess

    disk = os.statvfs(request.root)
    request.reply(
        {
            "python": platform.python_version(),
            "executable": sys.executable,
            "system": platform.system(),
            "machine": platform.machine(),
            "host": platform.node(),
            "user_id": os.getuid(),
            "boot": boot_id(),
            "processes": process_table(),
            "now_unix": time.time(),
            "root": request.root,
            "box_id": box_id(request.root),
            "real_root": os.path.realpath(request.root),
            "private_place": find_place(request.root, os.path.expanduser("~")).as_dict(),
            "free_bytes": disk.f_bavail * disk.f_frsize,
            "free_inodes": disk.f_favail,
            "total_inodes": disk.f_files,
            "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        }
    )


def box_id(root: str) -> str:
    """Return this box's own id, the same for every home: made once, at random."""
    path = os.path.join(root, "box-id")
    if not os.path.exists(path):
        mine = "%s.%d" % (path, os.getpid())
        write_atomic(mine, os.urandom(6).hex().encode("ascii"))
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)  # a second process takes the first one's
        os.unlink(mine)
    with open(path) as file:
        return file.read().strip()


def events(request: Request) -> None:
    """Stream journal events from a byte offset, following for follow_s seconds."""
    folder = folder_of(request)
    offset = count_of(request, "offset")
    deadline = time.monotonic() + float(request.args.get("follow_s", 0))
    first = True
    while not request.gone:
        found, offset = journal.read_from(folder.journal, offset, _JOURNAL_READ_BYTES)
        if found or first:
            request.reply({"events": found, "offset": offset})
            first = False
        if found:
            continue
        if time.monotonic() >= deadline or fold(journal.read_from(folder.journal, 0)[0]).terminal:
            return
        time.sleep(_POLL_S)


def tail(request: Request) -> None:
    """Stream an attempt's log from a byte offset; follow until that attempt has ended or follow_s is up."""
    folder = folder_of(request)
    place = folder.attempt(str(request.args["cell"]), count_of(request, "attempt"))
    offset = count_of(request, "offset")
    deadline = time.monotonic() + float(request.args.get("follow_s", 0))
    while not request.gone:
        ended = os.path.exists(os.path.join(place, "exit.json"))
        offset = _send_from(request, os.path.join(place, "log"), offset, growing=not ended)
        if ended or time.monotonic() >= deadline:
            return
        time.sleep(_POLL_S)


def follow(request: Request) -> None:
    """Stream events, log bytes and beats together, from where home last was."""
    folder = folder_of(request)
    until = time.monotonic() + float(request.args.get("follow_s", 3600))
    logs = parse_logs(request.args.get("logs"))
    following = Following(request, folder, count_of(request, "offset"), logs)
    if int(request.args.get("tail_bytes", -1)) >= 0:
        following.only_tail(int(request.args["tail_bytes"]))
    following.live(until)


def fingerprint(request: Request) -> None:
    """Report what the teardown gate compares: stats of every artifact now, live processes, the run's holder."""
    folder = folder_of(request)
    plan = plan_of(request, folder)
    places = {name: folder.out(name) for name in plan["cells"]}
    seen = observe(folder)
    for name, entries in sorted(manifest.fingerprints(places, plan["patterns"]).items()):
        for start in range(0, max(1, len(entries)), frames.ENTRIES_A_FRAME):
            request.reply({"cell": name, "entries": entries[start : start + frames.ENTRIES_A_FRAME]})
    for name in request.args.get("whole") or ():
        for entries in remains.batches(folder.out(str(name)), frames.ENTRIES_A_FRAME):
            request.reply({"whole": str(name), "entries": entries})
    trainers = [(cell["pid"], cell["started"]) for cell in seen["cells"].values() if cell["pid"]]
    alive = sorted(process.pid for process in processes_of(trainers, folder.mark()))
    who = occupants_of(folder, seen)
    beside = remains.beside_the_code(folder, plan, list(places)) if seen["state"] in ("failed", "stopped") else {}
    others = remains.unpromised(places, plan["patterns"])
    astray = remains.astray(folder, plan, list(places))
    request.reply({"seen": seen, "alive": alive, **who, **others, "beside": beside, "astray": astray})


def get(request: Request) -> None:
    """Send a range of one file below a run's folder."""
    folder = folder_of(request)
    offset = count_of(request, "offset")
    remaining = count_of(request, "length") if "length" in request.args else -1
    try:
        fd = open_below(os.path.join(folder.path, *_area(request)), str(request.args["path"]))
    except (OSError, UnsafePath) as error:
        raise Refused("artifact.unreadable", "%s: %s" % (request.args.get("path"), error)) from None
    if request.args.get("area") == "cells" and os.path.basename(str(request.args["path"])) == "log":
        _send_log(request, fd, offset)
        return
    with os.fdopen(fd, "rb", buffering=0) as file:
        file.seek(offset)
        while remaining != 0 and not request.gone:
            want = frames.CHUNK_BYTES if remaining < 0 else min(frames.CHUNK_BYTES, remaining)
            chunk = file.read(want)
            if not chunk:
                return
            remaining -= len(chunk) if remaining > 0 else 0
            request.data(chunk)


def _send_log(request: Request, fd: int, offset: int) -> None:
    redactor = redactor_of(folder_of(request))
    try:
        while not request.gone:
            chunk = read_clean(fd, offset, frames.CHUNK_BYTES, redactor)
            if not chunk:
                return
            request.data(chunk)
            offset += len(chunk)
    finally:
        os.close(fd)


def take_readings(request: Request) -> None:
    """Measure disks, memory, CPU, cards and tools; with `signs`, look for those of platforms too."""
    paths = [str(path) for path in request.args.get("paths") or [request.root]]
    taken = box_readings.take(paths)
    asked = request.args.get("signs") or []
    if asked:
        from leasehold.caretaker.machine import platform_signs  # only before a launch

        taken["signs"] = platform_signs.read([(str(kind), str(value)) for kind, value in asked])
    request.reply(taken)


def tell_series(request: Request) -> None:
    """Send what the patrol measured in the last seconds, oldest first, then its newest sample and our clock."""
    folder, now = folder_of(request), time.time()
    since = now - count_of(request, "last_s") if request.args.get("last_s") else 0.0
    records = list(rings.read_window(folder.readings, since, now))
    for start in range(0, len(records), _RECORDS_A_FRAME):
        request.reply({"records": records[start : start + _RECORDS_A_FRAME]})
    status = read_json(folder.status) or {}
    request.reply({"now_unix": now, "newest": status.get("readings") or {}, "health": status.get("health") or {}})


def probe_tier(request: Request) -> None:
    """Write, read and delete a probe file on a path."""
    path = str(request.args.get("path") or request.root)
    request.reply({"path": path, "problem": limits.write_probe(path)})


def leave_note(request: Request) -> None:
    """Leave a note on a shared disk."""
    request.reply({"problem": shared_disk_probe.leave(*_note(request), str(request.args.get("text", "")))})


def find_note(request: Request) -> None:
    """Look for a note that another box left."""
    request.reply(shared_disk_probe.find(*_note(request), min(60.0, float(request.args.get("wait_s", 0)))))


def drop_note(request: Request) -> None:
    """Remove a note."""
    request.reply({"problem": shared_disk_probe.drop(*_note(request))})


def find_hogs(request: Request) -> None:
    """Report the biggest folders and files below a path."""
    request.reply(biggest.find(str(request.args.get("path") or request.root), float(request.args.get("limit_s", 10))))


def check_env(request: Request) -> None:
    """Let the job's own interpreter report its version and what it can import."""
    from leasehold.caretaker.setup import interpreter  # only for this: it brings tempfile and much else

    request.reply(interpreter.check(request.args, request.root))


def check_secrets(request: Request) -> None:
    """Ask the trackers whose keys the job's secrets are; answers never hold a value."""
    from leasehold.caretaker.setup import tracker_keys  # only for this: it brings TLS and HTTP

    values, env = request.args.get("secrets") or {}, request.args.get("env") or {}
    job_env = {str(name): str(value) for name, value in env.items()}
    outfit = Outfit(request.root, request.args.get("platform") or {}, job_env)
    request.reply({"answers": tracker_keys.ask_all({str(name): str(value) for name, value in values.items()}, outfit)})


def salvageable(request: Request) -> None:
    """List every plain file below a cell's out folder, promised or not."""
    for entries in remains.batches(folder_of(request).out(str(request.args["cell"])), frames.ENTRIES_A_FRAME):
        for entry in entries:
            request.reply(entry)


def _area(request: Request) -> List[str]:
    area = str(request.args.get("area", "out"))
    cell = str(request.args.get("cell", ""))
    folder = folder_of(request)
    if area == "out":
        return ["out", os.path.basename(folder.out(cell))]
    if area == "cells":
        return ["cells", os.path.basename(folder.cell(cell))]
    if area == "run":
        return []
    raise Refused("wire.bad_request", "no area %r" % area)


def _note(request: Request) -> Tuple[str, str]:
    name = str(request.args.get("name", ""))
    if not shared_disk_probe.NAME.match(name):
        raise Refused("wire.bad_request", "a note's name is 16 to 64 hexadecimal digits, not %r" % name)
    return str(request.args.get("path") or request.root), name


def process_table() -> str:
    """Return the process namespace: containers of one host share its boot id, and differ in this."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _send_from(request: Request, path: str, offset: int, growing: bool) -> int:
    redactor = redactor_of(folder_of(request))
    while not request.gone:
        chunk = read_log(path, offset, frames.CHUNK_BYTES, redactor)
        if growing and len(chunk) < frames.CHUNK_BYTES:
            chunk = whole_words(chunk)
        if not chunk:
            break
        request.data(chunk)
        offset += len(chunk)
    return offset
