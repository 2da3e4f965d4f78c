"""Choose the secrets' folder when many machines and people see ours: in the user's home, readable by nobody else.

The tasks of an array start later, on other nodes, with nobody at home: what they need must lie where they can read it,
so a node's own disk does not serve. As for ~/.ssh, nobody else may be able to change a folder on the way.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, NamedTuple, Tuple

NAME = ".leasehold-private"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Place(NamedTuple):
    """The folder of a run's secrets, and what keeps others out."""

    path: str  # empty: below our own folder
    private: bool
    why: str

    def as_dict(self) -> Dict[str, Any]:
        """Format for home."""
        return {"path": self.path, "private": self.private, "why": self.why}


def find_place(root: str, home: str) -> Place:
    """Judge this user's home folder; write nothing."""
    folder = os.path.realpath(home) if os.path.isabs(home) else ""
    if not os.path.isdir(folder):
        return Place("", False, "there is no home folder (%s)" % (home or "HOME is not set"))
    problem = _changeable(folder)
    if problem:
        return Place("", False, problem)
    real = os.path.realpath(root)
    if real.startswith(folder.rstrip("/") + "/") and not _changeable(real):
        return Place("", True, "%s lies in your home folder" % root)
    own = os.path.join(folder, NAME)
    problem = _enterable(own) if os.path.lexists(own) else ""
    return Place("", False, problem) if problem else Place(own, True, "only you can enter it")


def make_place(root: str, home: str) -> Place:
    """Choose the folder and make it; one that cannot be made or kept from others is not used."""
    place = find_place(root, home)
    if not place.path:
        return place
    try:
        if not os.path.lexists(place.path):
            os.mkdir(place.path, 0o700)
            os.chmod(place.path, 0o700)
        problem = _enterable(place.path)
    except OSError as error:
        problem = "%s: %s" % (place.path, error.strerror)
    return Place("", False, problem) if problem else place


def settle(root: str, home: str, platform: Dict[str, Any]) -> Tuple[Dict[str, Any], Place]:
    """Add the folder to the known platform facts; one that a profile names itself is kept."""
    named = os.path.expanduser(str(platform.get("credentials") or ""))
    if os.path.isabs(named):  # a variable of a task's own is none: nobody could put anything there beforehand
        return platform, Place(named, True, "the platform's profile names it")
    place = make_place(root, home)
    return (dict(platform, credentials=place.path) if place.path else platform), place


def _changeable(folder: str) -> str:
    """Return which folder on the way down to this one another user could replace; "" when none."""
    while True:
        info = os.stat(folder)
        if info.st_uid not in (0, os.geteuid()):
            return "%s belongs to another user (uid %d)" % (folder, info.st_uid)
        if info.st_mode & _OTHERS_WRITE and not info.st_mode & stat.S_ISVTX:
            return "others can write to %s (mode %04o)" % (folder, stat.S_IMODE(info.st_mode))
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _enterable(folder: str) -> str:
    """Return why a folder is not this user's alone; "" when it is."""
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode):
        return "%s is not a folder" % folder
    if info.st_uid != os.geteuid():
        return "%s belongs to another user (uid %d)" % (folder, info.st_uid)
    if info.st_mode & _OTHERS:
        return "others can enter %s (mode %04o)" % (folder, stat.S_IMODE(info.st_mode))
    return ""
