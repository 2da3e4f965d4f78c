"""Refresh: ask every box's boot line once, in parallel; silence is unknown, never success."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, LinkError
from leasehold.kit.files.file_layouts import STATUS, words
from leasehold.kit.run.run_states import FINISHED
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine import heard_again, superseded
from leasehold.lifecycle.machine.box import Box, gateway_of, way_to
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.model.lease.trained_time import checked_work, with_progress
from leasehold.model.run.refresh_turn import FleetTurn
from leasehold.transport import sharing
from leasehold.transport.wire import ask_status

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease, RunRecord
    from leasehold.platforms.contract import Engine
    from leasehold.transport.contract import Link, Transport
    from leasehold.transport.patience import WaitLimits

from .fan_out import Call, fan_out
from .health import STALE_BEAT_S, trouble
from .lease_notes import note_reached

PATIENCE_S = 15.0
_FRESH_S = 2
_OVER = ("finished", "failed", "stopped")
_SHUTDOWN_S = 120  # seconds that a box may still answer after a stop was requested
_TURNED_AWAY_S = (0.5, 1.0, 2.0, 4.0)

Answer = dict[str, dict[str, object]] | str  # status by run, or the reason why there is none


def refresh(home: Home, records: list[RunRecord], patience_s: float = PATIENCE_S) -> Iterator[FleetTurn]:
    """Record what each box reports of its runs, as soon as it has answered; yield at every answer and every tick.

    The caller may leave at any time: answers until then are recorded, and no more queries start.
    """
    left = superseded.left_behind(home)  # boxes that a run left while they were silent
    wanted = {record.lease for record in records} | left
    leases = [lease for lease in leases_to_ask(home) if lease.id in wanted]
    off = {lease.box for lease in leases if not lease.open}  # these are not expected to answer
    boxes = _boxes(home, leases, patience_s)
    live = {record.lease for record in records if record.state not in _OVER}
    for box in boxes.values():
        box.rest = {lease.id for lease in box.leases} - live
    calls = [Call(name, box.gateway, box.ask) for name, box in boxes.items()]
    silent: dict[str, str] = {}
    open_calls = len(calls)
    try:
        for turn in fan_out(calls):
            answers = {lease: answer for _, said in turn.heard for lease, answer in said.items()}
            for name, said in turn.heard:
                silent.update((name, why) for why in said.values() if isinstance(why, str) and name not in off)
            open_calls -= len(turn.heard)
            _settle_left(home, leases, answers, left)
            slowest = max((asked_s for _, asked_s in turn.waiting), default=0.0)
            yield FleetTurn(
                asked=len(calls),
                answered=len(calls) - open_calls - len(silent),
                silent=dict(silent),
                waiting=tuple(name for name, _ in sorted(turn.waiting, key=lambda one: -one[1])),
                left_s=max(0.0, patience_s - slowest),
                runs=_record(home, leases, answers, records),
            )
    finally:
        for box in boxes.values():
            box.leave()


def leases_to_ask(home: Home) -> list[Lease]:
    """List the open leases, and those recently reported as stopped by a person: their boxes must not answer."""
    return [*books.leases(home.ledger, only_open=True), *heard_again.worth_asking(home, time.time())]


@dataclass
class _Box:
    """One box to ask: leases on it differ by folder only, so one connection serves all."""

    way: Transport
    patience_s: float
    limits: WaitLimits
    leases: list[Lease] = field(default_factory=list)
    clusters: dict[str, Box] = field(default_factory=dict)  # by lease: such a query must gather first
    links: list[Link | Engine] = field(default_factory=list)
    left: bool = False
    rest: set[str] = field(default_factory=set)  # leases whose runs are all over: their pod may be gone

    def gateway(self) -> str:
        """Return the gateway of its connection."""
        return gateway_of(self.way)

    def ask(self) -> dict[str, Answer]:
        """Ask for every lease on it; an unresponsive box is asked once, not once per lease."""
        answers: dict[str, Answer] = {}
        deadline = time.monotonic() + self.patience_s
        why = ""
        for lease in self.leases:
            answers[lease.id] = why or self._ask_lease(lease, deadline)
            why = str(answers[lease.id]) if isinstance(answers[lease.id], str) else ""
        return answers

    def leave(self) -> None:
        """Close what is still open."""
        self.left = True
        for link in self.links:
            kill = getattr(link, "kill", link.close)
            kill()

    def open(self, way: Transport, command: str) -> Link:
        """Open a link that leave() can end."""
        if self.left:
            raise LinkError("link.closed", "nobody waits for the answer any more")
        link = way.open(command)
        self.links.append(link)
        return link

    def _ask_lease(self, lease: Lease, deadline: float) -> Answer:
        try:
            said = by_run(_patiently(lambda left_s: self._lines(lease.root, left_s), deadline))
            return self._gathered(lease, said)
        except LeaseholdError as error:
            return {} if error.code == "link.pod_over" and lease.id in self.rest else error.message

    def _gathered(self, lease: Lease, said: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        """Ask a cluster's scheduler through its login node: nothing there keeps the status up to date."""
        stale = [run for run, value in said.items() if value.get("engine") == "slurm" and _may_change(value)]
        if not stale or lease.id not in self.clusters:
            return said
        with self.clusters[lease.id].look_in() as engine:
            self.links.append(engine)
            return {**said, **{run: {**said[run], **engine.observe.look(run), "age_s": 0} for run in stale}}

    def _lines(self, root: str, left_s: float) -> list[tuple[int, str]]:
        def ask(way: sharing.Way) -> list[tuple[int, str]]:
            return ask_status(_Tracked(self, way.transport), root, min(way.patience_s, left_s), self.limits)

        return sharing.first_answer(sharing.ways(self.way, left_s), ask)


class _NoWay:
    """Stands in for a box that this home can no longer name."""

    def __init__(self, name: str, error: LeaseholdError) -> None:
        self.name = name
        self._error = error

    def open(self, command: str) -> Link:
        raise self._error


class _Tracked:
    """A transport that records its links, so that leave() can close them."""

    def __init__(self, box: _Box, way: Transport) -> None:
        self.name = way.name
        self._box = box
        self._way = way

    def open(self, command: str) -> Link:
        return self._box.open(self._way, command)


def _boxes(home: Home, leases: list[Lease], patience_s: float) -> dict[str, _Box]:
    boxes: dict[str, _Box] = {}
    for lease in leases:
        if lease.box not in boxes:
            boxes[lease.box] = _Box(_way(home, lease.box), patience_s, home.limits)
        boxes[lease.box].leases.append(lease)
        with contextlib.suppress(LeaseholdError):
            boxes[lease.box].clusters[lease.id] = box_of(home, lease)
    return boxes


def _may_change(value: dict[str, object]) -> bool:
    return value.get("state") in ("running", "stopping") and int(str(value.get("age_s", 0))) > _FRESH_S


def _way(home: Home, name: str) -> Transport:
    try:
        return way_to(home, name)
    except LeaseholdError as error:
        return _NoWay(name, error)


def _patiently(
    ask: Callable[[float], list[tuple[int, str]]], deadline: float, chance: Callable[[], float] = random.random
) -> list[tuple[int, str]]:
    """Retry with growing pauses where a busy sshd refused the connection."""
    for pause_s in _TURNED_AWAY_S:
        try:
            return ask(max(0.1, deadline - time.monotonic()))
        except LinkError as error:
            if error.code != "link.turned_away" or time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s * (0.5 + chance()))
    return ask(max(0.1, deadline - time.monotonic()))


def by_run(lines: list[tuple[int, str]]) -> dict[str, dict[str, object]]:
    """Parse a boot line's answer: each run's status, with its age."""
    found = {}
    for age_s, text in lines:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("schema", STATUS) != STATUS:
            reason = one_line(words(f"the status of {value.get('run')}", value["schema"], STATUS))
            found[str(value.get("run"))] = {"state": "unknown", "reason": reason, "age_s": age_s}
        elif isinstance(value, dict):
            found[str(value.get("run"))] = {**value, "age_s": age_s}
    return found


def _settle_left(home: Home, leases: list[Lease], answers: dict[str, Answer], left: set[str]) -> None:
    """Stop what still trains on a box that a run has left: its connection does so."""
    for lease in leases:
        if lease.id in left and isinstance(answers.get(lease.id), dict):
            with contextlib.suppress(LeaseholdError):
                box_of(home, lease).look_in().close()


def _record(home: Home, leases: list[Lease], answers: dict[str, Answer], records: list[RunRecord]) -> frozenset[str]:
    """Record the boxes' reports on these runs, in one transaction; return the runs."""
    closed = {lease.id for lease in leases if not lease.open}
    told = [
        record
        for record in records
        if record.lease in answers and not (record.lease in closed and isinstance(answers[record.lease], str))
    ]
    if not told:
        return frozenset()
    for lease in leases:
        answer = answers.get(lease.id)
        if not lease.open and isinstance(answer, dict):
            heard_again.note_heard(home, lease, answer.values())
        elif isinstance(answer, dict) and time.time() - lease.since_unix > _SHUTDOWN_S:
            note_reached(home.ledger, lease)  # a stopped box that answers is on again
    with home.ledger.transaction() as append:
        for record in told:
            for kind, data in _events(record, answers[record.lease]):
                append(kind, record.lease, record.run, data)
    return frozenset(record.run for record in told)


def _events(record: RunRecord, answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(answer, str):
        yield "run_unreachable", {"why": answer}
        if record.state in ("running", "stopping", "opened", "planned", "unknown"):
            yield _seen(record, "unknown", f"last known {record.state}; {answer}", proven_unix=record.seen_unix)
        return
    value = answer.get(record.run)
    if value is None:
        return
    state, age = str(value.get("state")), int(str(value.get("age_s", 0)))
    lives = state in ("running", "stopping")
    proven = {"proven_unix": time.time() - age} if lives and value.get("engine") != "slurm" else {}
    if lives and age > STALE_BEAT_S:
        yield _seen(record, "unknown", f"last known {state}; no heartbeat on the box for {age} s", **proven)
    else:
        changed = float(str(value.get("changed_unix") or 0))
        seq, work = int(str(value.get("seq", 0))), checked_work(value.get("work"))
        if work:
            work = with_progress(work, value.get("readings"), *_count(value.get("cells")))
        reason = str(value.get("reason", "")) or trouble(value) or one_line(str(value.get("standing") or ""))[:400]
        yield _seen(record, state, reason, seq=seq, changed_unix=changed, work=work, **proven)


def _count(cells: object) -> tuple[int, int]:
    """Count the cells of a status, and the finished ones."""
    states = [cell.get("state") for cell in cells.values() if isinstance(cell, dict)] if isinstance(cells, dict) else []
    return len(states), states.count(FINISHED)


def _seen(record: RunRecord, state: str, reason: str, **more: Any) -> tuple[str, dict[str, Any]]:
    facts = {"changed_unix": 0.0, **more, "seq": more.get("seq") or record.seq}
    return "run_seen", {"state": state, "reason": reason, **facts}
