"""A sweep over several boxes: each has its own run and its own queue, so that they work on while this home sleeps.

A cell is given to one box at a time, and that is written down before it is done: the plan of each box's run in the
ledger names its cells. While this home looks on, a box that has nothing left takes waiting cells from the one that
would end last, and the cells of a box that stays unreachable go to the others.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from leasehold.errors import LeaseholdError, LinkError, NotDurable, RunFailed, UserError
from leasehold.ledger import books
from leasehold.lifecycle.boxes import Box, find_box
from leasehold.lifecycle.home import Home
from leasehold.lifecycle.journey import run_through
from leasehold.lifecycle.launch import generation
from leasehold.lifecycle.orders import RunOrder, RunOutcome
from leasehold.lifecycle.project import RESULTS, read_tree
from leasehold.lifecycle.resolve import read_job, run_id
from leasehold.model.job import Job
from leasehold.model.note import Note, Report
from leasehold.model.plan import plan_from_dict
from leasehold.model.sweep import Standing

from .split import Bench, measured, split, to_move
from .standing import standing, sweep_of

_TICK_S = 2.0
_QUIET = ("log", "progress")


@dataclass
class _Part:
    """One box of the fleet, as the coordinator knows it."""

    box: Box
    suffix: str = ""
    places: int = 1
    cells: list[str] = field(default_factory=list)
    busy: bool = False
    problem: str = ""
    failed: str = ""
    not_durable: NotDurable | None = None


def run_fleet(home: Home, order: RunOrder, names: Sequence[str], report: Report) -> Standing:
    """Run a job's cells over these boxes and bring every one home; the identical call goes on where it stands."""
    job = read_job(order.job_file)
    if not job.cells:
        hint = "give the job cells:, or name one box"
        raise UserError("sweep.no_cells", f"{len(names)} boxes were named, and {job.name} is one run", hint=hint)
    if len(set(names)) != len(names):
        raise UserError("sweep.twice", f"a box is named twice: {', '.join(names)}", hint="name each once")
    return _Fleet(home, order, job, report).go([find_box(home, name, root=order.root) for name in names])


class _Fleet:
    def __init__(self, home: Home, order: RunOrder, job: Job, report: Report) -> None:
        self._home = home
        self._order = order
        self._job = job
        self._costs = {cell.name: cell.cost for cell in job.cells}
        self._ended: queue.Queue[tuple[_Part, RunOutcome | None, BaseException | None]] = queue.Queue()
        self._lock = threading.Lock()
        self._report = report
        project = order.job_file.absolute().parent
        results = (order.results or project / RESULTS).absolute()
        tree = read_tree(project, order.job_file.name, results, home.tree_memory(project))
        self._again = generation(home, job, tree, again=order.again)  # once for all boxes
        self._sweep = run_id(job, tree.sha256) + (f"-{self._again}" if self._again else "")

    def go(self, boxes: Sequence[Box]) -> Standing:
        parts = self._meet([_Part(box) for box in boxes])
        self._take_up(parts)
        for part in parts:
            self._fence(part)
            if part.cells:
                self._begin(part)
        while any(part.busy for part in parts):
            self._turn(parts)
        found = self._reckon(parts)
        lacking = [part.not_durable for part in parts if part.not_durable]
        if (
            lacking and found.settled
        ):  # a cell that failed is told first; what is home and not copied fails all the same
            raise NotDurable(lacking[0].code, "; ".join(error.message for error in lacking), hint=lacking[0].hint)
        return found

    def _meet(self, parts: list[_Part]) -> list[_Part]:
        """Ask every box who it is and how many cells it can run at once; one that is silent gets no cells now."""

        def meet(part: _Part) -> None:
            try:
                engine = part.box.connect()
                try:
                    part.suffix = "b" + str(engine.probe()["box_id"])[:6]
                    part.places = self._places(engine.wire.ask("readings", paths=[]))
                finally:
                    engine.wire.close()
            except LeaseholdError as error:
                part.problem = error.message

        threads = [threading.Thread(target=meet, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for part in parts:
            if part.problem:
                self._say(part, Note("unknown", f"gets no cells now: {part.problem}"))
        met = [part for part in parts if not part.problem]
        if not met:
            raise LinkError(
                "link.none", "none of the boxes answers", hint="; ".join(f"{p.box.name}: {p.problem}" for p in parts)
            )
        if len({part.suffix for part in met}) != len(met):
            raise UserError(
                "sweep.same_box", "two of the names are one and the same box", hint="lease box list shows them"
            )
        return met

    def _places(self, readings: dict[str, object]) -> int:
        cards = readings.get("gpus")
        at_once = self._job.at_once or 0
        if self._job.gpu is None or not isinstance(cards, list) or "CUDA_VISIBLE_DEVICES" in self._job.env:
            return max(1, at_once)
        fit = max(1, len(cards) // max(1, self._job.gpu.count))
        return min(fit, at_once) if at_once else fit

    def _take_up(self, parts: list[_Part]) -> None:
        """Leave every cell with the box that has it; share out those that nobody has."""
        mine = {part.box.name: part for part in parts}
        held: set[str] = set()
        for record in books.runs(self._home.ledger):
            if sweep_of(record.run) != self._sweep or not books.find_lease(self._home.ledger, record.lease).open:
                continue
            plan = plan_from_dict(json.loads(record.plan_json))
            ours = [cell for cell in plan.cells if cell in self._costs and cell not in held]
            held.update(ours)
            if record.box in mine:
                mine[record.box].cells += ours
        free = {name: cost for name, cost in self._costs.items() if name not in held}
        benches = [Bench(part.box.name, part.places, sum(self._costs[c] for c in part.cells)) for part in parts]
        for name, cells in split(free, benches).items():
            mine[name].cells += cells

    def _fence(self, part: _Part) -> None:
        """Have a box that comes back give up what was given to others while it was away."""
        run = self._run_of(part)
        if not run:
            return
        try:
            engine = part.box.connect()
            try:
                seen = engine.look(run)
                foreign = [name for name in seen["cells"] if name not in part.cells]
                kept = set(foreign) - set(engine.release(run, foreign) if foreign and not seen["terminal"] else foreign)
            finally:
                engine.wire.close()
        except LeaseholdError:
            return  # whoever tends it will say so
        begun = sorted(name for name in kept if seen["cells"][name]["state"] in ("starting", "running"))
        if begun:
            what = f"still runs {', '.join(begun[:5])}, which went to another box; whichever is home first counts"
            self._say(part, Note("warning", what))

    def _begin(self, part: _Part) -> None:
        part.busy, part.failed, part.not_durable = True, "", None
        threading.Thread(target=self._tend, args=(part, tuple(part.cells)), daemon=True, name=part.box.name).start()

    def _tend(self, part: _Part, cells: tuple[str, ...]) -> None:
        """Walk one box's run to its end, with a ledger connection of this thread's own."""
        home = replace(self._home)
        order = replace(self._order, on=part.box.name, cells=cells, part=part.suffix, generation=self._again)
        try:
            outcome = run_through(home, order, part.box, lambda note: self._say(part, note))
            self._ended.put((part, outcome, None))
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: told and reckoned with by the coordinator
            self._ended.put((part, None, error))
        finally:
            home.ledger.close()

    def _turn(self, parts: list[_Part]) -> None:
        try:
            part, outcome, error = self._ended.get(timeout=_TICK_S)
        except queue.Empty:
            return
        part.busy = False
        if isinstance(error, LinkError):
            part.problem = error.message
            self._move_from_dead(part, parts)
        elif isinstance(error, RunFailed | NotDurable):
            part.failed = error.message
            part.not_durable = error if isinstance(error, NotDurable) else None
            self._say(part, Note("warning", error.message))
        elif isinstance(error, LeaseholdError):
            part.problem = part.failed = error.message
            self._say(part, Note("warning", f"{error.message}; {error.hint}"))
        elif error is not None:
            raise error
        if not part.problem and not self._order.detach:
            self._help_the_last(part, parts)

    def _help_the_last(self, idle: _Part, parts: list[_Part]) -> None:
        """Take waiting cells from the box that would end last, if this one would end them sooner."""
        busy = [part for part in parts if part.busy]
        if not busy:
            return
        looks = [(part, *self._left(part)) for part in busy]
        part, waiting, load = max(looks, key=lambda look: look[2] / look[0].places)
        wanted = to_move(waiting, Bench(part.box.name, part.places, load), Bench(idle.box.name, idle.places))
        released = self._release(part, wanted) if wanted else []
        if released:
            part.cells = [cell for cell in part.cells if cell not in released]
            idle.cells += released
            self._say(
                idle,
                Note("moved", f"takes {len(released)} waiting cells from {part.box.name}: {', '.join(released[:5])}"),
            )
            self._begin(idle)

    def _left(self, part: _Part) -> tuple[dict[str, float], float]:
        """Say which cells of a box wait, and the cost of all it has not done, in seconds where cells were timed."""
        try:
            engine = part.box.connect()
        except LeaseholdError:
            return {}, 0.0
        try:
            cells = engine.look(self._run_of(part))["cells"]
        except LeaseholdError:
            return {}, 0.0
        finally:
            engine.wire.close()
        took = {
            n: float(c["ended_unix"]) - float(c["started_unix"]) for n, c in cells.items() if c["state"] == "finished"
        }
        costs = measured(self._costs, took)
        left = {
            name: costs.get(name, 0.0) for name, cell in cells.items() if cell["state"] not in ("finished", "failed")
        }
        return {
            name: costs[name] for name in left if cells[name]["state"] == "pending" and not cells[name]["attempt"]
        }, sum(left.values())

    def _release(self, part: _Part, cells: list[str]) -> list[str]:
        """Have a box give cells back; written down first that they are no longer its own."""
        try:
            engine = part.box.connect()
        except LeaseholdError:
            return []
        try:
            released = [str(name) for name in engine.release(self._run_of(part), cells)]
        except LeaseholdError as error:
            self._say(part, Note("warning", f"could not give cells back: {error.message}"))
            return []
        finally:
            engine.wire.close()
        self._forget(part, released)
        return released

    def _forget(self, part: _Part, cells: Sequence[str]) -> None:
        """Take cells out of what a run promises: another one promises them from now on."""
        record = books.find_run(self._home.ledger, self._run_of(part))
        plan = plan_from_dict(json.loads(record.plan_json))
        kept = replace(plan, cells=tuple(cell for cell in plan.cells if cell not in cells))
        self._home.ledger.append(
            "run_planned", lease=record.lease, run=record.run, plan=kept.as_dict(), name=plan.job.name, box=record.box,
            project=record.project, results=record.results,
        )  # fmt: skip

    def _move_from_dead(self, dead: _Part, parts: list[_Part]) -> None:
        """Give what an unreachable box has not brought home to the others."""
        record = next((r for r in books.runs(self._home.ledger) if r.run == self._run_of(dead)), None)
        receipt = books.receipt_of(record) if record else None
        safe = set(receipt.cells if receipt else ())
        owed = {cell: self._costs[cell] for cell in dead.cells if cell not in safe}
        alive = [part for part in parts if not part.problem]
        self._say(dead, Note("unknown", f"stays unreachable: {dead.problem}"))
        if not owed or not alive or self._order.detach:
            return
        if record is not None:
            self._forget(dead, list(owed))
        dead.cells = [cell for cell in dead.cells if cell in safe]
        benches = [Bench(part.box.name, part.places, self._left(part)[1] if part.busy else 0.0) for part in alive]
        for name, cells in split(owed, benches).items():
            part = next(one for one in alive if one.box.name == name)
            if cells:
                part.cells += cells
                self._say(part, Note("moved", f"takes {len(cells)} cells of {dead.box.name}: {', '.join(cells[:5])}"))
                self._add(part) if part.busy else self._begin(part)

    def _add(self, part: _Part) -> None:
        """Give more cells to a box that is at work: its run is told, and whoever tends it sees them."""
        home = replace(self._home)
        order = replace(
            self._order,
            on=part.box.name,
            cells=tuple(part.cells),
            part=part.suffix,
            generation=self._again,
            detach=True,
        )
        try:
            run_through(home, order, part.box, lambda note: None)
        except LeaseholdError as error:
            self._say(part, Note("warning", f"could not be given more cells: {error.message}"))
        finally:
            home.ledger.close()

    def _run_of(self, part: _Part) -> str:
        """Name a box's run of this very sweep, once it is written down."""
        run = f"{self._sweep}-{part.suffix}"
        return run if any(record.run == run for record in books.runs(self._home.ledger)) else ""

    def _reckon(self, parts: list[_Part]) -> Standing:
        runs = [self._run_of(part) for part in parts if self._run_of(part)]
        if not runs:
            problems = "; ".join(f"{part.box.name}: {part.problem or part.failed}" for part in parts)
            raise RunFailed("sweep.not_started", f"no box took a cell: {problems}")
        return standing(self._home, self._sweep, ask=not self._order.detach)

    def _say(self, part: _Part, note: Note) -> None:
        if note.kind in _QUIET:
            return
        with self._lock:
            self._report(Note(note.kind, f"{part.box.name}: {note.text}", note.data))
