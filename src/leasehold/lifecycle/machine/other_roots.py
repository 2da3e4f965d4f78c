"""Other leasehold folders on the machine to be ended: their runs end with it, whatever name or root they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books, box_book
from leasehold.model.platform.placing import DEFAULT_ROOT
from leasehold.model.run.verdict import Finding, passes, refuses, unknown

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease
    from leasehold.model.platform.profile import Verb
    from leasehold.platforms.contract import Engine

    from .box import Box

_NAMED = 5  # folders named on one line; more are counted


@dataclass(frozen=True)
class OtherRoot:
    """A leasehold folder beside the requested one, with its runs as the box sees them."""

    root: str
    runs: tuple[dict[str, Any], ...]
    problem: str = ""


def roots_at_stake(engine: Engine, home: Home, lease: Lease, verb: Verb) -> tuple[list[OtherRoot], list[Finding]]:
    """Have the box list its other roots that the verb may end, and where it may not look for them.

    It receives every folder that this home ever used. A rehearsal ends nothing but its own folder, with all that
    lies below it.
    """
    if not verb.deletes and verb.ends == "nothing":
        return [], []
    machine, said = engine.box.machine(known_roots(home))
    found = [
        OtherRoot(str(one["root"]), tuple(one.get("runs") or ()), one_line(str(one.get("problem") or "")))
        for one in said
    ]
    if lease.platform != "rehearsal":
        return found, _name_closed(machine.get("closed"))
    below = str(machine.get("real_root") or lease.root).rstrip("/") + "/"
    return [one for one in found if one.root.startswith(below)], []


def _name_closed(places: Any) -> list[Finding]:
    """List other users' folders that the box's user may not read; every box has some."""
    names = [one_line(str(place)) for place in places] if isinstance(places, list) else []
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    where = f"{', '.join(names[:_NAMED])}{more}"
    return [passes(f"not known whether runs of other users lie in {where}, into which this user may not look")]


def known_roots(home: Home) -> list[str]:
    """List the folders of all leases and boxes of this home."""
    roots = [lease.root for lease in books.leases(home.ledger)]
    roots += [entry.root for entry in box_book.entries(home.ledger)]
    return list(dict.fromkeys(root or DEFAULT_ROOT for root in roots))


def judge_unread(lease: Lease, root: OtherRoot, strange: list[str]) -> list[Finding]:
    """List the runs of another root that this home does not know, and what could not be read there."""
    found = [unknown(f"another folder of ours on this machine: {root.problem}")] if root.problem else []
    for run in strange:
        what = f"run {one_line(run)} lies in {one_line(root.root)} on this same machine, unknown to this home"
        found.append(refuses(what, attach_words(run, lease.box, root.root) + ", then lease pull; or from its own home"))
    return found


def attach_words(run: str, box: str, root: str) -> str:
    """Format the command that makes a run known to this home."""
    place = f" --root {one_line(root)}" if root not in ("", DEFAULT_ROOT) else ""
    return f"lease attach {one_line(run)} --on {box}{place}"


@contextmanager
def opened(box: Box, root: str) -> Iterator[Engine]:
    """Connect to the same machine for another folder."""
    with replace(box, root=root).connect() as engine:
        yield engine
