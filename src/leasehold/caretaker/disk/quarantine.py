"""Quarantine, restore or delete exact targets, each checked again right before."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from typing import Any, Dict, List, Optional, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.atomic import read_json, write_json

from .classes import BESIDE
from .open_files import OpenFiles
from .units import Tally, Unit, identity_of

_STAMP = re.compile(r"\d{8}T\d{6}Z(?:-\d+)?\Z")
_FRESH_S = 1.0
_MOST_ENTRIES = 20_000_000


def take(request: Request) -> None:
    """Quarantine the targets (or delete them, if requested); yield an answer for each, and at the end the stamp."""
    targets = [_target(item) for item in request.args.get("targets") or ()]
    root = os.path.realpath(request.root)
    aside = None if request.args.get("delete") else _Aside(root)
    free_before = _free_bytes(root)
    opened = OpenFiles()
    for target in targets:
        problem = why_not(root, target)
        if not problem:  # last of all, and fresh: it sees processes that opened it meanwhile
            opened = OpenFiles() if opened.age_s > _FRESH_S else opened
            problem = _users(target, opened)
        if not problem:
            problem = aside.take(target) if aside else _delete(target["path"])
        request.reply({"path": target["path"], "done": not problem, "problem": problem})
    stamp = aside.close() if aside else ""
    request.reply({"stamp": stamp, "free_bytes_gained": _free_bytes(root) - free_before})


def undo(request: Request) -> None:
    """Restore the contents of a quarantine to their old paths; never overwrite what is there by now."""
    root, stamp, manifest = _opened(request)
    left = []
    for item in manifest["moved"]:
        problem = _back(item)
        if problem:
            left.append(item)
        else:
            _sweep(item)
        request.reply({"path": item["path"], "done": not problem, "problem": problem})
    _close(root, stamp, left)
    request.reply({"stamp": stamp, "left": len(left)})


def empty(request: Request) -> None:
    """Delete the contents of a quarantine."""
    root, stamp, manifest = _opened(request)
    free_before = _free_bytes(root)
    left = []
    for item in manifest["moved"]:
        there = os.path.lexists(item["to"])
        problem = _delete(item["to"]) if there else ""
        if problem:
            left.append(item)
        else:
            _sweep(item)
        request.reply({"path": item["path"], "done": not problem, "problem": problem})
    _close(root, stamp, left)
    gained = _free_bytes(root) - free_before
    request.reply({"stamp": stamp, "left": len(left), "free_bytes_gained": gained})


def stamps(root: str) -> List[Dict[str, Any]]:
    """List the quarantines of this box, oldest first."""
    folder = os.path.join(root, "quarantine")
    names = sorted(filter(_STAMP.match, os.listdir(folder))) if os.path.isdir(folder) else []
    found = []
    for name in names:
        manifest = read_json(os.path.join(folder, name, "manifest.json"))
        moved = list((manifest or {}).get("moved") or [])
        total = sum(int(item.get("bytes", 0)) for item in moved)
        found.append(
            {"stamp": name, "items": len(moved), "bytes": total, "paths": [item["path"] for item in moved][:50]}
        )
    return found


def why_not(root: str, target: Dict[str, Any]) -> str:
    """Return why a target must not be touched now; empty when it is still exactly what a person was shown."""
    path = target["path"]
    try:
        info = os.lstat(path)
    except OSError as error:
        return "it is gone (%s)" % error.strerror
    if os.path.realpath(path) != path:
        return "a folder above it is a link now"
    if stat.S_ISLNK(info.st_mode) or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        return "it is neither a plain file nor a folder"
    if identity_of(info) != target["identity"]:
        return "it changed since the survey (device, inode, size or time)"
    protected = _protected(root, path)
    if protected:
        return protected
    return _measure_again(path, info, target)


def _users(target: Dict[str, Any], opened: OpenFiles) -> str:
    users = opened.users_of(target["path"], (target["identity"][0], target["identity"][1]))
    return "pid %s has it open" % ", ".join(map(str, users[:5])) if users else ""


def _protected(root: str, path: str) -> str:
    """Return why a path is protected: a mount, our root, a home, a parent of these, part of a run, a run not over."""
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.ismount(path) or path.count("/") < 2:
        return "it is a disk or a folder of the system"
    for kept in (root, home):
        if (kept + "/").startswith(path.rstrip("/") + "/"):
            return "%s lies in it" % kept
    active = os.path.join(root, "active") + "/"
    if not path.startswith(root + "/"):
        return ""
    if path.startswith(active):
        if os.path.dirname(path) + "/" != active:
            return "it is part of a run; only a whole run can go"
        folder = RunFolder(path)
        seen = observe(folder)
        alive = seen["caretaker_alive"] or any(cell["alive"] or cell["held"] for cell in seen["cells"].values())
        return "" if seen["terminal"] and not alive else "the run is %s" % seen["state"]
    inside = path[len(root) + 1 :].split("/")
    allowed = inside[0] in ("data", "cache") and len(inside) > 1
    return "" if allowed else "it is what we work with; lease box prune removes old code"


def _measure_again(path: str, info: os.stat_result, target: Dict[str, Any]) -> str:
    """Count a folder again: nobody was shown what came into it since the survey."""
    unit = Unit("", path, info, stat.S_ISDIR(info.st_mode))
    tally = Tally(os.geteuid())
    tally.add(unit, info)
    stack = [path] if unit.is_folder else []
    while stack and tally.entries < _MOST_ENTRIES:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    below = entry.stat(follow_symlinks=False)
                    tally.add(unit, below)
                    if stat.S_ISDIR(below.st_mode):
                        if below.st_dev != info.st_dev:
                            return "another disk is mounted in it"
                        stack.append(entry.path)
        except OSError as error:
            return "it cannot be read whole: %s" % error.strerror
    if unit.foreign:
        return "%d files in it belong to other users" % unit.foreign
    if (unit.names, unit.length) != (target["names"], target["length"]):
        then = (target["names"], target["length"], unit.names, unit.length)
        return "its contents changed since the survey (%d names, %d bytes long; now %d and %d)" % then
    return ""


class _Aside:
    """A quarantine being filled: its list is written before each rename, so that nothing is unlisted after a crash."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._stamp = _new_stamp(root)
        self._moved: List[Dict[str, Any]] = []

    def take(self, target: Dict[str, Any]) -> str:
        """Rename a target into the quarantine; on another disk, into one beside it. Nothing is freed or copied."""
        path = target["path"]
        name = "%04d-%s" % (len(self._moved), os.path.basename(path)[:200])
        inside = os.path.join(self._root, "quarantine", self._stamp)
        beside = os.path.join(os.path.dirname(path), BESIDE, self._stamp)
        problem = ""
        for folder in (inside, beside):
            self._moved.append(dict(target, to=os.path.join(folder, name)))
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                _write_manifest(self._root, self._stamp, self._moved)
                os.rename(path, self._moved[-1]["to"])
                return ""
            except OSError as error:
                self._moved.pop()
                other_disk = error.errno == errno.EXDEV
                problem = "it cannot be renamed on this filesystem" if other_disk else str(error.strerror)
                if not other_disk:
                    break
        return problem + "; --delete removes it without quarantine"

    def close(self) -> str:
        """Return the stamp; remove a quarantine that stayed empty."""
        _close(self._root, self._stamp, self._moved)
        return self._stamp if self._moved else ""


def _back(item: Dict[str, Any]) -> str:
    if not os.path.lexists(item["to"]):
        return "" if os.path.lexists(item["path"]) else "it is in no quarantine any more"
    if os.path.lexists(item["path"]):
        return "something else is there now; this lies in %s" % item["to"]
    try:
        os.makedirs(os.path.dirname(item["path"]), exist_ok=True)
        os.rename(item["to"], item["path"])
    except OSError as error:
        return str(error.strerror)
    return ""


def _delete(path: str) -> str:
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError as error:
        return "%s: %s" % (error.filename or path, error.strerror)
    return ""


def _new_stamp(root: str) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(100):
        name = stamp if number == 0 else "%s-%d" % (stamp, number)
        try:
            os.makedirs(os.path.join(root, "quarantine", name), mode=0o700)
            _write_manifest(root, name, [])
        except FileExistsError:
            continue
        except OSError as error:
            hint = "the disk is too full even for a list; --delete removes without quarantine"
            raise Refused("disk.no_quarantine", "no quarantine can be made: %s; %s" % (error.strerror, hint)) from None
        return name
    raise Refused("disk.no_quarantine", "a hundred quarantines were made this second")


def _write_manifest(root: str, stamp: str, moved: List[Dict[str, Any]]) -> None:
    write_json(os.path.join(root, "quarantine", stamp, "manifest.json"), {"stamp": stamp, "moved": moved})


def _opened(request: Request) -> Tuple[str, str, Dict[str, Any]]:
    stamp = str(request.args.get("stamp", ""))
    root = os.path.realpath(request.root)
    if not _STAMP.match(stamp):
        raise Refused("wire.bad_request", "%r is not the stamp of a quarantine" % stamp)
    manifest: Optional[Dict[str, Any]] = read_json(os.path.join(root, "quarantine", stamp, "manifest.json"))
    if manifest is None:
        known = ", ".join(item["stamp"] for item in stamps(root)) or "none"
        raise Refused("disk.unknown_stamp", "there is no quarantine %s here; known: %s" % (stamp, known))
    return root, stamp, manifest


def _close(root: str, stamp: str, left: List[Dict[str, Any]]) -> None:
    """Remove an empty quarantine, with the folders made for it; keep the list of what is left."""
    place = os.path.join(root, "quarantine", stamp)
    if left:
        _write_manifest(root, stamp, left)
        return
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(place, "manifest.json"))
        os.rmdir(place)


def _sweep(item: Dict[str, Any]) -> None:
    """Remove the folders of a quarantine beside its target, as far as they are empty."""
    folder = os.path.dirname(item["to"])
    if os.path.basename(os.path.dirname(folder)) == BESIDE:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
            os.rmdir(os.path.dirname(folder))


def _target(item: Any) -> Dict[str, Any]:
    try:
        path, identity = str(item["path"]), [int(number) for number in item["identity"]]
        if not path.startswith("/") or os.path.normpath(path) != path or len(identity) != 4:
            raise ValueError(path)
        numbers = {key: int(item[key]) for key in ("bytes", "names", "length")}
        return dict(numbers, path=path, identity=identity)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("wire.bad_request", "no target of a survey: %r" % error) from None


def _free_bytes(path: str) -> int:
    figures = os.statvfs(path)
    return figures.f_bavail * figures.f_frsize
