"""The home that holds a run. Every home may look; only the holder may end things; each takeover raises the epoch."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Mapping

from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import read_object, write_json

from .run_folder import RunFolder

_MOST_BEFORE = 20
_WORD_CHARS = 120
_KINDS = {"epoch": (int,), "who": (str,), "at_unix": (float, int), "before": (list,), "version": (str,)}
_CLAIM_S = 300.0  # a claim on which nothing was begun for this long has no holder


def read(folder: RunFolder) -> Dict[str, Any]:
    """Return the run's holder: {} where no file names one, {unreadable} where the file cannot be read."""
    try:
        holder = read_object(folder.holder)
    except ValueError as error:
        return {"unreadable": "holder.json %s" % error}
    if holder is not None and not isinstance(holder.get("home"), str):
        return {"unreadable": "holder.json names no home"}
    for key, kinds in _KINDS.items():
        if holder is not None and not isinstance(holder.get(key, kinds[0]()), kinds):
            return {"unreadable": "holder.json has a %s that is none" % key}
    return holder or {}


def hold(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Record that this home holds the run from now on; the caller has the start lock."""
    before = read(folder)
    earlier = [item for item in before.get("before") or [] if isinstance(item, dict)]
    if before.get("home"):
        earlier.append({key: before.get(key) for key in ("home", "epoch", "who", "at_unix")})
    if "unreadable" in before:
        _set_aside(folder)
    value: Dict[str, Any] = {
        "home": str(args.get("home", "")),
        "epoch": _next_epoch(before),
        "who": str(args.get("who", ""))[:_WORD_CHARS],
        "at_unix": round(time.time(), 3),
    }
    if args.get("version"):
        value["version"] = str(args["version"])[:_WORD_CHARS]  # the leasehold that reads what this home writes here
    write_json(folder.holder, dict(value, before=earlier[-_MOST_BEFORE:]) if earlier else value)


def _set_aside(folder: RunFolder) -> None:
    with contextlib.suppress(OSError):
        os.replace(folder.holder, "%s.unreadable-%d" % (folder.holder, time.time()))


def _next_epoch(before: Mapping[str, Any]) -> int:
    """Return the next epoch; where the last one cannot be read, a number that none has reached."""
    epoch = before.get("epoch", 0)
    known = isinstance(epoch, int) and "unreadable" not in before
    return epoch + 1 if known else int(time.time())


def claim(folder: RunFolder, args: Mapping[str, Any]) -> bool:
    """Hold an unheld run before it is begun; return whether this home holds it. The caller has the start lock."""
    holder = read(folder)
    begun = os.path.exists(folder.plan)
    if "unreadable" in holder:
        return False
    age_s = time.time() - float(holder.get("at_unix") or 0.0)
    if not holder.get("home") or not begun and not 0 <= age_s < _CLAIM_S:
        hold(folder, args)
        return True
    mine = is_mine(folder, args)
    if mine and not begun:
        write_json(folder.holder, dict(holder, at_unix=round(time.time(), 3)))
    return mine


def unclaim(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Release a run that was claimed and never begun."""
    if not os.path.exists(folder.plan) and is_mine(folder, args):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder.holder)


def require(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Refuse a home that does not hold the run; a run without a holder (an older folder) is open to all."""
    if not is_mine(folder, args):
        raise Refused("run.taken_over", say(folder.run, read(folder), str(args.get("home", ""))))


def is_mine(folder: RunFolder, args: Mapping[str, Any]) -> bool:
    """Return whether the requesting home holds the run, or nobody does."""
    holder = read(folder)
    return "unreadable" not in holder and holder.get("home") in ("", None, str(args.get("home", "")))


def hold_again(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Hold a run that is being resumed; refuse a home from which it was taken: it must take it over explicitly."""
    holder = read(folder)
    mine = str(args.get("home", ""))
    if "unreadable" in holder or not is_mine(folder, args) and _was(holder, mine):
        raise Refused("run.taken_over", say(folder.run, holder, mine))
    hold(folder, args)


def take_over(folder: RunFolder, args: Mapping[str, Any]) -> None:
    """Hold the run from now on, if nobody else did so since this home looked (epoch); the caller has the start lock."""
    holder = read(folder)
    mine = str(args.get("home", ""))
    if holder.get("home") == mine:
        return
    if args.get("epoch") != int(holder.get("epoch", 0)):
        raise Refused("run.taken_over", say(folder.run, holder, mine))
    hold(folder, args)


def say(run: str, holder: Mapping[str, Any], mine: str) -> str:
    """Format who holds a run, since when, and whether it was taken from the home that asks."""
    if "unreadable" in holder:
        return "who holds %s is unknown: its %s" % (run, holder["unreadable"])
    who = holder.get("who") or "home %s" % str(holder.get("home", ""))[:8]
    at = holder.get("at_unix")
    when = time.strftime(" at %Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if isinstance(at, (int, float)) else ""
    if _was(holder, mine):
        return "%s was taken over by %s%s" % (run, who, when)
    return "%s is held by %s%s" % (run, who, when.replace(" at ", " since ", 1))


def _was(holder: Mapping[str, Any], home: str) -> bool:
    return any(item.get("home") == home for item in holder.get("before") or [] if isinstance(item, dict))
