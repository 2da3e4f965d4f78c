"""The fence of a run that goes on on another box: who moved it, where to, and from which epoch on.

Whoever raises the fence first owns that epoch here. Nothing of the run starts on this box again, unless home claims a
later epoch for it: then the run came back.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Mapping

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import read_json, read_object, write_json
from leasehold.kit.text.units import utc_minute

MOVED, RACED = "run.moved", "move.raced"
_WORD_CHARS = 120


def read(folder: RunFolder) -> Dict[str, Any]:
    """Return the fence of a run: {} where there is none. One that cannot be read still stands, at the highest epoch."""
    try:
        fence = read_object(folder.fence)
    except ValueError as error:
        return {"epoch": 1 << 40, "to": "", "unreadable": "fence.json %s" % error}
    if fence is not None and type(fence.get("epoch")) is not int:
        return {"epoch": 1 << 40, "to": "", "unreadable": "fence.json names no epoch"}
    return fence or {}


def put_up(folder: RunFolder, args: Mapping[str, Any]) -> Dict[str, Any]:
    """Fence the run from an epoch on; the caller has the start lock. Of two homes at one epoch the first one wins."""
    epoch, nonce = args.get("epoch"), str(args.get("nonce") or "")
    if type(epoch) is not int or epoch < 1 or not nonce:
        raise Refused("wire.bad_request", "a fence has an epoch and a nonce")
    before = read(folder)
    if before and before.get("nonce") != nonce and int(before["epoch"]) >= epoch:
        raise Refused(RACED, say_raced(folder.run, before))
    value = {
        "epoch": epoch,
        "nonce": nonce,
        "to": str(args.get("to") or "")[:_WORD_CHARS],
        "home": str(args.get("home") or "")[:_WORD_CHARS],
        "who": str(args.get("who") or "")[:_WORD_CHARS],
        "at_unix": before.get("at_unix") if before.get("nonce") == nonce else round(time.time(), 3),
    }
    if value != before:
        write_json(folder.fence, value)
    return value


def require_open(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Refuse to start what goes on elsewhere, unless this start has a later epoch; the caller has the start lock."""
    fence = read(folder)
    epoch = args.get("epoch")
    if not fence:
        return
    if not isinstance(epoch, int) or epoch <= int(fence["epoch"]):
        raise Refused(MOVED, say_moved(folder.run, fence))
    os.replace(folder.fence, "%s.before-%d" % (folder.fence, epoch))  # the run came back


def keep_claim(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Keep the claim under which home moved the run here: its checkpoints are published under that epoch."""
    claim = args.get("claim")
    if not isinstance(claim, dict) or type(claim.get("epoch")) is not int or not claim.get("nonce"):
        return
    known = read_json(folder.refuge_epoch) or {}
    if int(known.get("epoch") or 0) < claim["epoch"]:
        words = {key: str(claim.get(key) or "")[:_WORD_CHARS] for key in ("nonce", "home", "box", "lease")}
        write_json(folder.refuge_epoch, dict(words, epoch=claim["epoch"]))


def say_moved(run: str, fence: Mapping[str, Any]) -> str:
    """Format where a run went and since when."""
    if fence.get("unreadable"):
        return "%s may go on on another box: its %s" % (run, fence["unreadable"])
    return "%s was moved to %s%s%s" % (run, fence.get("to") or "another box", _when(fence), _by(fence))


def say_raced(run: str, fence: Mapping[str, Any]) -> str:
    """Format which other home moves a run."""
    if fence.get("unreadable"):
        return "%s: its %s" % (run, fence["unreadable"])
    return "%s is being moved to %s by another home%s%s" % (
        run, fence.get("to") or "another box", _by(fence), _when(fence)
    )  # fmt: skip


def _by(fence: Mapping[str, Any]) -> str:
    return " by %s" % fence["who"] if fence.get("who") else ""


def _when(fence: Mapping[str, Any]) -> str:
    at = fence.get("at_unix")
    return " at %s" % utc_minute(at) if isinstance(at, (int, float)) and 0 < at < 1e11 else ""
