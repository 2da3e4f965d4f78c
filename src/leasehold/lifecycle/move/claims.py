"""The moves of a run in this home's ledger, and the claim of its next epoch: who may continue it from now on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.errors import Refusal
from leasehold.kit.refuge.epochs import Claim
from leasehold.ledger.store import Ledger

from .places import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.lifecycle.records.orders import Where

BEGUN, LAID, MOVED = "move_begun", "move_laid", "run_moved"


@dataclass(frozen=True)
class Move:
    """One move of a run, as this home wrote it down before the first act."""

    run: str
    lease: str  # that it leaves; empty: this home does not know where it was
    box: str
    to: str  # the box that it goes to, and our folder there
    root: str
    epoch: int
    nonce: str

    def goes_to(self, where: Where) -> bool:
        """Return whether the move goes to this box and folder."""
        return (self.to, self.root) == where

    def claim(self, home: str, at_unix: float) -> Claim:
        """Return the claim of its epoch."""
        return Claim(self.epoch, self.nonce, home, self.to, self.lease, at_unix)

    def at_start(self, ledger: Ledger) -> dict[str, Any]:
        """Return what the new box needs at its start: the epoch that opens its fence, and the claim it publishes by."""
        return {"epoch": self.epoch, "claim": dict(self.claim(ledger.home_id, time.time())._asdict())}


def pending(ledger: Ledger, run: str) -> Move | None:
    """Return the move of a run that was begun and has not ended, if any."""
    found: Move | None = None
    for event in ledger.events(run=run):
        if event.kind == BEGUN:
            data = event.data
            found = Move(
                run, str(event.lease), str(data["box"]), str(data["to"]), str(data["root"]), int(data["epoch"]),
                str(data["nonce"]),
            )  # fmt: skip
        elif event.kind == MOVED:
            found = None
    return found


def known_epoch(ledger: Ledger, run: str) -> int:
    """Return the highest epoch that this home claimed for a run; 0 for none."""
    return max((int(event.data["epoch"]) for event in ledger.events(run=run, kind=BEGUN)), default=0)


def begin(ledger: Ledger, leaving: tuple[str, str, str], to: Where, highest: int) -> Move:
    """Write down a new move before its first act. leaving: run, lease and box; to: box and root."""
    run, lease, box = leaving
    epoch = max(1, highest, known_epoch(ledger, run)) + 1  # the first box claims 1 by itself
    move = Move(run, lease, box, to.box, to.root, epoch, os.urandom(12).hex())
    ledger.append(BEGUN, lease=lease, run=run, box=box, to=to.box, root=to.root, epoch=epoch, nonce=move.nonce)
    return move


def highest_in(places: Sequence[Place], run: str) -> tuple[int, dict[str, Any]]:
    """Return the highest epoch claimed in any of these places, and its claim."""
    best: tuple[int, dict[str, Any]] = (0, {})
    for place in places:
        said = place.claim(run)
        if int(said.get("highest") or 0) > best[0]:
            best = int(said["highest"]), dict(said.get("claim") or {})
    return best


def claim_everywhere(ledger: Ledger, places: Sequence[Place], move: Move) -> list[str]:
    """Claim the move's epoch in every place; return the places that did not answer. Of two homes exactly one wins."""
    silent = []
    for place in places:
        said = place.claim(move.run, move.claim(ledger.home_id, round(time.time(), 3)))
        if said.get("problem"):
            silent.append(f"{place.where}: {said['problem']}")
            continue
        if not said.get("mine") or int(said.get("highest") or 0) > move.epoch:
            raise raced(move.run, said.get("claim") or {}, place.where)
    return silent


def raced(run: str, claim: Mapping[str, Any], where: str) -> Refusal:
    """Return the refusal of a home that lost: another one moves the run, or has moved it."""
    other, to = str(claim.get("home") or "")[:8], str(claim.get("box") or "")
    return Refusal(
        "move.raced",
        f"another home{f' ({other})' if other else ''} moves {run}{f' to {to}' if to else ''}; here it goes no further",
        seen=f"{where} has its claim of epoch {claim.get('epoch', '?')}",
        hint=f"that home knows where it goes on: lease status there, then lease attach {run} --on BOX here",
    )
