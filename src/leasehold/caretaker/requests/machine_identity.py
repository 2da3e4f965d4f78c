"""Which machine this is, and which other folders of ours lie on it: whatever ends the machine ends them all."""

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
    """Identify this machine, then each of our other roots here with its runs; home names roots to look at too."""
    also = [str(root) for root in request.args.get("also") or []]
    request.reply({"machine": identity(request.root)})
    for root in other_roots(request.root, also):
        request.reply({"root": root, **_look_into(root)})


def identity(root: str) -> Dict[str, Any]:
    """Take what tells machines apart; empty where the system does not say.

    Containers of one host share its boot id, and images may carry a machine id: the process table differs there.
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
    """Write down for other homes that runs lie here. Best effort: a home folder may be read-only."""
    real = os.path.realpath(root)
    folder = os.path.join(os.path.expanduser("~"), _NOTES)
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16] + ".json"
    with contextlib.suppress(OSError, UnicodeError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_json(os.path.join(folder, name), {"root": real}, durable=False)


def other_roots(root: str, also: List[str]) -> List[str]:
    """Find our other roots: as noted on this machine, as home knows them, and in the usual places."""
    mine, found = os.path.realpath(root), {}  # type: str, Dict[str, str]
    for place in _candidates(mine, also):
        real = os.path.realpath(place)
        if real != mine and real not in found and _is_root(real):
            found[real] = real
    return sorted(found)


def _candidates(root: str, also: List[str]) -> Iterator[str]:
    home = os.path.expanduser("~")
    yield from _noted(home)
    for place in also:
        if place.startswith(("/", "~/")):
            yield os.path.expanduser(place)
    for above in (home, os.path.dirname(root), root):
        yield from _children(above)
    for other in _other_homes(home):  # the machine may be known by another user's name too
        yield from _noted(other)
        yield from (os.path.join(other, name) for name in _OURS)
    for mount in mounts():
        yield from (os.path.join(mount, name) for name in _OURS)


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
    """List what is mounted where, but for the kernel's own file systems."""
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
    """Whether runs of ours may lie there; a folder that may not be read is one by its name."""
    active = os.path.join(place, "active")
    try:
        if not stat.S_ISDIR(os.stat(active).st_mode):
            return False
        names = os.listdir(active)
    except PermissionError:
        return os.path.basename(place) in _OURS
    except OSError:
        return False
    ours = os.path.exists(os.path.join(place, "box-id")) or os.path.isdir(os.path.join(place, "caretaker"))
    return ours or any(os.path.exists(os.path.join(active, name, "plan.json")) for name in names)


def _look_into(root: str) -> Dict[str, Any]:
    """List a root's runs; one that cannot be read is named as such, never as absent."""
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
