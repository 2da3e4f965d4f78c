"""Detect whether a folder of home lies on this machine: home leaves a note beside its results, the box looks for it."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from leasehold.caretaker.wire.connection import Refused, Request

from .machine_identity import identity, mounts

_NAME = re.compile(r"\.leasehold-witness-[0-9a-f]{32}\Z")
_TEXT_BYTES = 256
_MOST_FOLDERS = 2000000
_LOOK_EVERY = 256


def witness(request: Request) -> None:
    """Look for each note where home's folder could be visible from here, and below our root; report how far it got."""
    limit_s = min(300.0, max(0.0, float(request.args.get("limit_s", 0))))
    found = look_for(request.root, request.args.get("notes") or [], limit_s)
    request.reply({"machine": identity(request.root), **found})


def look_for(root: str, asked: List[Dict[str, Any]], limit_s: float) -> Dict[str, Any]:
    """Look for notes: {name, text, places, tails, above}, the last being home's folders as `device:inode`."""
    notes = [_note(note) for note in asked]
    seen = {}  # type: Dict[str, str]
    for name, text, places, tails in notes:
        place = _in_places(name, text, [*places, *_by_tails(root, tails)])
        if place:
            seen[name] = place
    below, whole = _walk(os.path.realpath(root), {note[0]: note[1] for note in notes}, limit_s)
    inside = [str(note["name"]) for note in asked if _is_among(root, note.get("above") or [])]
    return {"seen": seen, "below": below, "whole": whole, "inside": inside}


def _note(value: Any) -> Tuple[str, str, List[str], List[str]]:
    name, text = str(value.get("name", "")), str(value.get("text", ""))
    if not _NAME.match(name) or not text:
        raise Refused("wire.bad_request", "a note needs a valid name and a text, not %r" % name)
    places = [str(place) for place in value.get("places") or [] if str(place).startswith("/")]
    return name, text, places, [str(tail) for tail in value.get("tails") or []]


def _by_tails(root: str, tails: List[str]) -> List[str]:
    """Join tails to our folders: if home mounts a folder of ours, the path below its mount point exists here too."""
    bases = [os.path.expanduser("~"), *_above(os.path.realpath(root)), *mounts()]
    return [os.path.join(base, tail) for base in dict.fromkeys(bases) for tail in tails if not tail.startswith("/")]


def _above(path: str) -> List[str]:
    found = [path]
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def _in_places(name: str, text: str, places: List[str]) -> str:
    for place in dict.fromkeys(places):
        path = os.path.join(place, name)
        if _read(path) == text:
            return path
    return ""


def _walk(root: str, wanted: Dict[str, str], limit_s: float) -> Tuple[Dict[str, str], bool]:
    """Look into every folder below the root, within the limit; follow mounts, not links.

    Returns the path of each note found, and whether every folder was seen.
    """
    found = {}  # type: Dict[str, str]
    if not wanted:
        return found, True
    deadline, left, count, whole = time.monotonic() + limit_s, [root], 0, True
    while left:
        count += 1
        if count > _MOST_FOLDERS or (count % _LOOK_EVERY == 1 and time.monotonic() >= deadline):
            return found, False
        folder = left.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif entry.name in wanted and _read(entry.path) == wanted[entry.name]:
                        found[entry.name] = entry.path
        except FileNotFoundError:
            continue  # it was removed meanwhile
        except OSError:
            whole = False
        if len(found) == len(wanted):
            return found, True
    return found, whole


def _is_among(root: str, folders: List[str]) -> bool:
    """Return whether our root is one of these `device:inode` folders; only numbers of one kernel can be compared."""
    seen = os.stat(root)
    return "%d:%d" % (seen.st_dev, seen.st_ino) in folders


def _read(path: str) -> Optional[str]:
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        return os.read(fd, _TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
