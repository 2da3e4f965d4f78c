"""Identify this machine and our other root folders on it: ending the machine ends the runs in all of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import Any, Dict, Iterator, List

from leasehold.caretaker.status.observe import listed
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import boot_id

from .box import box_id, process_table

_NOTES = ".leasehold-roots"  # in the user's home folder: which roots were used on this machine
_OURS = ("leasehold", ".leasehold")
_MOST_NEIGHBOURS = 2000
_MOST_HOMES = 200
_PSEUDO = ("/proc", "/sys", "/dev", "/run")


def machine(request: Request) -> None:
    """Identify this machine, then list our other roots here with their runs; home names roots to look at too.

    `closed` are folders in which a root usually lies and that this user may not read.
    """
    also = [str(root) for root in request.args.get("also") or []]
    request.reply({"machine": dict(identity(request.root), closed=closed_places())})
    for root in other_roots(request.root, also):
        request.reply({"root": root, **_look_into(root)})


def identity(root: str) -> Dict[str, Any]:
    """Return what distinguishes machines; empty where the system does not tell.

    Containers of one host share its boot id, and images may carry a machine id: the process namespace differs there.
    """
    slash = os.stat("/")
    return {
        "box_id": box_id(root),
        "machine_id": _machine_id(),
        "boot": boot_id(),
        "processes": process_table(),
        "slash": [slash.st_dev, slash.st_ino],
        "host": os.uname().nodename,
        "real_root": os.path.realpath(root),
    }


def note_root(root: str) -> None:
    """Record for other homes that runs lie here. Best effort: a home folder may be read-only."""
    real = os.path.realpath(root)
    folder = os.path.join(os.path.expanduser("~"), _NOTES)
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16] + ".json"
    with contextlib.suppress(OSError, UnicodeError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_json(os.path.join(folder, name), {"root": real}, durable=False)


def other_roots(root: str, also: List[str]) -> List[str]:
    """Find our other roots: as noted on this machine, as home knows them, and in the usual places."""
    mine, home = os.path.realpath(root), os.path.expanduser("~")
    notes = (note for place in (home, *_other_homes(home)) for note in _noted(place))
    found = {real for real in map(os.path.realpath, notes) if _is_root(real) or _is_closed(real)}
    for place in _candidates(mine, also):
        real = os.path.realpath(place)
        if real not in found and _is_root(real):
            found.add(real)
    return sorted(found - {mine})


def closed_places() -> List[str]:
    """List homes of other users, and mounts, that this user may not read: what lies there is unknown."""
    places = [*_other_homes(os.path.expanduser("~")), *mounts()]
    return [place for place in dict.fromkeys(places) if any(_is_closed(os.path.join(place, name)) for name in _OURS)]


def _candidates(root: str, also: List[str]) -> Iterator[str]:
    home = os.path.expanduser("~")
    for place in also:
        if place.startswith(("/", "~/")):
            yield os.path.expanduser(place)
    for above in (home, os.path.dirname(root), root):
        yield from _children(above)
    for place in (*_other_homes(home), *mounts()):  # the machine may be known by another user's name too
        yield from (os.path.join(place, name) for name in _OURS)


def _noted(home: str) -> Iterator[str]:
    notes = os.path.join(home, _NOTES)
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(notes)):
            noted = (read_json(os.path.join(notes, name)) or {}).get("root")
            if isinstance(noted, str) and noted.startswith("/"):
                yield noted


def _other_homes(home: str) -> List[str]:
    """List the home folders of this machine's other users, as far as they lie where such folders do."""
    found = ["/root", *_children("/home"), *_children(os.path.dirname(home))]
    return [place for place in dict.fromkeys(found) if place != home][:_MOST_HOMES]


def mounts() -> List[str]:
    """List what is mounted where, except the kernel's own file systems."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            places = [line.split(" ")[4] for line in file]
    except (OSError, IndexError):
        return ["/"]
    plain = [place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\") for place in places]
    return [place for place in dict.fromkeys(plain) if not place.startswith(_PSEUDO)]


def _children(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_NEIGHBOURS:
                return
            yield entry.path


def _is_root(place: str) -> bool:
    """Return whether runs of ours may lie there; an existing folder that may not be read is judged by its name."""
    active = os.path.join(place, "active")
    try:
        if not stat.S_ISDIR(os.stat(active).st_mode):
            return False
        names = os.listdir(active)
    except PermissionError:
        return os.path.basename(place) in _OURS and not _is_closed(place)
    except OSError:
        return False
    ours = os.path.exists(os.path.join(place, "box-id")) or os.path.isdir(os.path.join(place, "caretaker"))
    return ours or any(os.path.exists(os.path.join(active, name, "plan.json")) for name in names)


def _is_closed(place: str) -> bool:
    """Return whether a folder above hides its contents from this user, such as another user's home."""
    try:
        os.lstat(place)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _look_into(root: str) -> Dict[str, Any]:
    """List a root's runs; one that cannot be read is reported as such, never as absent."""
    runs: List[Dict[str, Any]] = []
    problems: List[str] = []
    try:
        for seen in listed(root):
            if seen.get("problem"):
                problems.append("%s: %s" % (os.path.join(root, "active", seen["run"]), seen["problem"]))
            else:
                runs.append({key: seen[key] for key in ("run", "state", "terminal", "caretaker_alive", "holder")})
    except OSError as error:
        problems.append("%s cannot be read: %s" % (root, error.strerror or error))
    return {"runs": runs, "problem": "; ".join(problems)}


def _machine_id() -> str:
    with contextlib.suppress(OSError), open("/etc/machine-id") as file:
        return file.read().strip()
    return ""
