"""Which box has which cell: adopted from the boxes' own reports, dealt, rebalanced, and moved from a silent box.

Each decision is written to the ledger first: the plan of each box's run names its cells. A cell that moves from one
box to another is given up by the first before the second receives it; a box that could not be asked is made to give it
up when it comes back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.heard_again import is_another
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note
from leasehold.model.run.plan import plan_from_dict

from .balance import split, to_move
from .cell_owners import claims_of, next_giving, owners, sent_away
from .estimates import Estimates, waiting
from .member import Member, forget, give_up, record_of, settled_cells

Say = Callable[[Member, Note], None]
TAKEN_OVER = "run.taken_over"
_KEEPS_S = 60.0


@dataclass
class Shares:
    """The cells of a sweep and the boxes that have them."""

    home: Home
    sweep: str
    members: list[Member]
    estimates: Estimates
    say: Say
    onlooker: bool = False
    moved: set[str] = field(default_factory=set)
    hand_over_s: float = 2.0  # seconds that a cell takes from one box to another, from the last moves

    def handed_over(self, took_s: float) -> None:
        """Record how long a cell was in transit."""
        self.hand_over_s = (self.hand_over_s + took_s) / 2

    def take_up(self) -> list[str]:
        """Leave every cell with the box that has it; return those that no box has and that are not settled."""
        met = self._met()
        has = owners({member.suffix: member.state for member in met})
        for member in met:
            member.cells = [name for name in self.estimates.all() if has.get(name) == member.suffix]
        away = self._with_absent(set(has))
        for member in self.members:
            if member.problem:
                member.cells = [name for name, run in away.items() if run == member.run]
        return [name for name in self.estimates.all() if name not in has and name not in away]

    def say_vanished(self) -> None:
        """Report boxes that know nothing of a run that worked there: its cells wait and do not restart from zero."""
        met = self._by_place()
        has = owners({member.suffix: member.state for member in met.values()})
        away = self._with_absent(set(has))
        for run in dict.fromkeys(away.values()):
            record = books.run_called(self.home.ledger, run)
            if record is None or record.state == "planned":
                continue
            lease = books.find_lease(self.home.ledger, record.lease)
            member = met.get((lease.box, lease.root))
            if member is None:
                continue
            settled = settled_cells(record)
            cells = [name for name, where in away.items() if where == run and name not in settled]
            if cells:
                named = ", ".join(cells[:5]) + (", …" if len(cells) > 5 else "")
                text = (
                    f"knows nothing of {run}, which was at work there with {named}: nothing of it begins at zero. "
                    "Is its disk mounted, is it the same machine? Then the same command goes on; if its folder is lost "
                    f"for good, lease run --again trains every cell anew, and lease waive {run} CELL gives one up"
                )
                self.say(member, Note("warning", text, {"run": run, "cells": cells}))

    def fence(self) -> None:
        """Make every box give up what another box has by now, begun or not; a finished result stays where it is."""
        met = {member.suffix: member for member in self._met()}
        for name, claims in claims_of({suffix: member.state for suffix, member in met.items()}).items():
            for claim in claims if len(claims) > 1 else ():
                keeper = met[owners({suffix: one.state for suffix, one in met.items()})[name]]
                if claim.place != keeper.suffix and not self.onlooker:
                    self._withdraw(met[claim.place], name, keeper)

    def take_back(self, back: Member) -> None:
        """Readmit a box that was silent: it gives up what another was given, unless it alone has finished it."""
        back.cells = []
        for name, cell in list(back.state.cells.items()):
            other = next((one for one in self._met() if one is not back and name in one.cells), None)
            if name not in self.estimates.all() or cell.leaves:
                continue
            if other is None or cell.state == "finished" and not _finished(other, name):
                back.cells.append(name)
                if other is not None and not self.onlooker:
                    other.cells.remove(name)
                    self._withdraw(other, name, back)
            elif not self.onlooker:
                self._withdraw(back, name, other)

    def deal(self, free: Iterable[str]) -> list[Member]:
        """Give unowned cells to the boxes that would end them soonest; return the boxes that got any."""
        costs = self.estimates.all()
        alive = [member for member in self._met() if not member.unfit]
        benches = [member.bench(self._left(member)) for member in alive]
        given = split({name: costs[name] for name in free}, benches) if alive else {}
        for member in alive:
            member.cells += given[member.box.name]
        return [member for member in alive if given[member.box.name]]

    def wanted_by(self, idle: Member) -> tuple[Member, list[str]] | None:
        """Choose waiting cells of the box that would end last, if this one would end them sooner."""
        now = time.monotonic()
        others = (
            one for one in self._met() if one.busy and not one.handing and one is not idle and one.keeps_until < now
        )
        looks = [(one, self._left(one)) for one in others if waiting(one.state)]
        if not looks:
            return None
        last, left = max(looks, key=lambda look: sum(look[1].values()) / look[0].places)
        works = any(cell.state in ("starting", "running") for cell in idle.state.cells.values())
        again = self.moved if works else set()  # only an idle box takes cells that were moved before
        wait = {name: left[name] for name in waiting(last.state) if name in left and name not in again}
        on_the_way = self.hand_over_s if self.estimates.in_seconds else 0.0
        wanted = to_move(wait, last.bench(left), idle.bench(self._left(idle)), on_the_way)
        return (last, wanted) if wanted else None

    def hand_over(self, last: Member, moved: Sequence[str], idle: Member) -> None:
        """Record that one box gave cells up for another."""
        self.moved.update(moved)
        last.cells = [name for name in last.cells if name not in moved]
        idle.cells += [name for name in moved if name not in idle.cells]
        what = f"takes {_count(moved)} that waited on {last.box.name}: {', '.join(moved[:5])}"
        self.say(idle, Note("moved", what))

    def deal_again(self, unfit: Member) -> list[Member]:
        """Give cells that a box refused to begin to the others; return the boxes that got any."""
        never = [name for name in unfit.cells if name not in unfit.state.cells]
        if self.onlooker or not never or all(one.unfit for one in self._met()):
            return []
        unfit.cells = [name for name in unfit.cells if name not in never]
        forget(self.home, unfit.run, never.__contains__)
        return self.deal(never)

    def move_from(self, dead: Member) -> list[Member]:
        """Give what an unreachable box has not brought home to the others; return the boxes that got any."""
        record = record_of(self.home, dead.run)
        safe = settled_cells(record) if record else set()
        owed = [name for name in dead.cells if name not in safe]
        if not owed or not self._met():
            return []
        forget(self.home, dead.run, owed.__contains__)
        dead.cells = [name for name in dead.cells if name in safe]
        dead.moved = True
        got = self.deal(owed)
        for member in got:
            took = [name for name in member.cells if name in owed]
            self.say(member, Note("moved", f"takes {_count(took)} of {dead.box.name}: {', '.join(took[:5])}"))
        return got

    def stamps(self, member: Member) -> dict[str, int]:
        """Number the giving of cells that a box has not received yet."""
        new = [name for name in member.cells if name not in member.state.cells]
        return next_giving(new, [one.state for one in self.members], time.time())

    def lose(self) -> None:
        """Only follow from now on: another home shares this sweep out."""
        self.onlooker = True

    def _by_place(self) -> dict[tuple[str, str], Member]:
        return {(member.box.name, member.box.root): member for member in self._met()}

    def _may_return(self, record: RunRecord, places: Container[tuple[str, str]]) -> bool:
        """Return whether a run that no box has may yet be found: its lease is open, or its box was off and is back."""
        lease = books.find_lease(self.home.ledger, record.lease)
        if lease.open:
            return True
        here = record.state != "planned" and (lease.box, lease.root) in places
        return here and books.closed_by_word(self.home.ledger, lease.id) and not is_another(self.home, lease)

    def _met(self) -> list[Member]:
        return [member for member in self.members if not member.problem]

    def _left(self, member: Member) -> dict[str, float]:
        """Estimate a box's remaining work, with the cells on their way to it."""
        costs = self.estimates.all()
        coming = {name: costs[name] for name in member.cells if name not in member.state.cells}
        return {**self.estimates.left(member.state, time.time()), **coming}

    def _with_absent(self, found: set[str]) -> dict[str, str]:
        """Return the cells of a run that cannot be asked, by this home's ledger and by who sent them there.

        Cells that are home or given up need no box any more.
        """
        met, places = {member.run for member in self._met()}, self._by_place()
        away: dict[str, str] = {}
        for record in books.runs(self.home.ledger):
            if sweep_of(record.run) != self.sweep:
                continue
            settled = settled_cells(record)
            lives = record.run not in met and self._may_return(record, places)
            for name in plan_from_dict(json.loads(record.plan_json)).cells:
                if name not in found and (name in settled or lives):
                    away.setdefault(name, record.run)
        sent = sent_away({member.suffix: member.state for member in self._met()})
        silent = {member.suffix: member.run for member in self.members if member.problem and member.suffix}
        for name, suffix in sent.items():
            if suffix in silent:
                away.setdefault(name, silent[suffix])
        return away

    def _withdraw(self, member: Member, name: str, to: Member) -> None:
        cell = member.state.cells.get(name)
        begun = cell is not None and cell.state in ("starting", "running")
        if self._give_up(member, {"withdraw": [name], "to": to.suffix}) and begun:
            how = "has finished it" if _finished(to, name) else "was given it meanwhile"
            what = f"ends its {name}: {to.box.name} {how}, and that one counts"
            self.say(member, Note("warning", what))

    def _give_up(self, member: Member, wish: Mapping[str, Any]) -> list[str]:
        """Make a box give cells up, and record that they are no longer its own."""
        try:
            released, seen = give_up(self.home, member, wish)
        except LeaseholdError as error:
            self.not_given_up(member, error)
            return []
        member.heard(seen)
        member.cells = [cell for cell in member.cells if cell not in released]
        return released

    def not_given_up(self, member: Member, error: LeaseholdError) -> None:
        """Report why a box kept its cells; where another home holds it, only follow from now on."""
        if error.code == TAKEN_OVER:
            self.lose()
        member.keeps_until = time.monotonic() + _KEEPS_S
        more = ": from now on this home only follows" if error.code == TAKEN_OVER else ""
        self.say(member, Note("warning", f"could not give cells back: {error.message}{more}"))


def _finished(member: Member, name: str) -> bool:
    return name in member.state.cells and member.state.cells[name].state == "finished"


def _count(cells: Sequence[str]) -> str:
    return "one cell" if len(cells) == 1 else f"{len(cells)} cells"
