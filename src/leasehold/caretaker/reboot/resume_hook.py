"""Resume after the box was restarted: one hook per run, installed if a person allowed it, removed at the run's end."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any, Dict, List, Mapping

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder, runs_below
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.atomic import read_json, write_atomic, write_json
from leasehold.kit.files.canonical_json import sha256

from . import mechanisms
from .mechanisms import Hook, Refusal

_LOCK_WAIT_S = 30.0
# Environment that a trainer's start may depend on and a restarted box lacks. Kept 0600: a proxy's address may hold a
# password.
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_KEPT_BEGINNINGS = ("LC_", "CUDA", "CONDA", "NCCL_", "XDG_", "NVIDIA_")
_KEPT_ENDINGS = ("_proxy", "_PROXY")


def keep(folder: RunFolder, ways: List[str]) -> Dict[str, Any]:
    """Install the run's hook by the first available mechanism; with none listed, remove an earlier hook.

    Never an obstacle: a box that cannot start anything after a restart still trains.
    """
    if not ways:
        remove(folder)
        return {}
    hook = Hook(tag_of(folder), folder.run, tuple(own_argv("revive", folder.path)))
    tried: List[str] = []
    for way in ways:
        try:
            with _Lock(folder):
                where = mechanisms.install(way, hook)
        except (Refusal, OSError) as problem:
            tried.append("%s: %s" % (way, problem))
            continue
        found = {"way": way, "tag": hook.tag, "where": where, "installed_unix": round(time.time(), 3), "tried": tried}
        write_json(folder.relaunch, found)
        _keep_environment(folder, os.environ)
        return found
    return {"way": "", "tried": tried}


def remove(folder: RunFolder) -> bool:
    """Remove the run's hook, if it has one; return whether it was there."""
    known = read_json(folder.relaunch)
    if known is None:
        return False
    with _Lock(folder):
        there = mechanisms.remove(str(known.get("way")), str(known.get("tag")))
    for path in (folder.relaunch_environment, folder.relaunch):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return there


def hooks(request: Request) -> None:
    """List what is installed on this box, install for a run, or remove all; each answer shows the current state."""
    act = str(request.args.get("act", "list"))
    for folder in runs_below(request.root):
        name = folder.run
        if act == "remove" and remove(folder):
            request.reply({"run": name, "removed": True})
        elif act == "install" and name in (request.args.get("runs") or ()):
            request.reply(dict(keep(folder, [str(way) for way in request.args.get("ways") or ()]), run=name))
        elif act == "list" and os.path.exists(folder.relaunch):
            request.reply(dict(read_json(folder.relaunch) or {}, run=name))
    if act not in ("list", "install", "remove"):
        raise Refused("wire.bad_request", "no act %r" % act)


def tag_of(folder: RunFolder) -> str:
    """Return the tag of a run's hook: from its folder, so that two roots of one user never confuse their hooks."""
    return sha256(os.fsencode(os.path.realpath(folder.path)))[:16]


def _keep_environment(folder: RunFolder, environ: Mapping[str, str]) -> None:
    kept = {name: value for name, value in environ.items() if _is_kept(name)}
    place = folder.relaunch_environment
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    write_atomic(place, json.dumps(kept).encode("utf-8"), mode=0o600)


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_BEGINNINGS) or name.endswith(_KEPT_ENDINGS)


def kept_environment(folder: RunFolder) -> Dict[str, str]:
    kept = read_json(folder.relaunch_environment) or {}
    return {str(name): str(value) for name, value in kept.items() if _is_kept(str(name))}


class _Lock:
    """One writer of crontabs and start files at a time, for all runs of this root."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = os.path.join(folder.root, "relaunch.lock")

    def __enter__(self) -> None:
        fd = wait_lock(self._path, _LOCK_WAIT_S)
        if fd is None:
            raise Refusal("another command has been writing it for 30 s")
        self._fd = fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
