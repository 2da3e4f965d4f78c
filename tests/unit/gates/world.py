"""A home, a box and a landlord for the teardown tests, with a bookkeeping of its own.

The real lifecycle/teardown.py, ledger and gates work here on real files; only the link, the processes and the
landlord are played. `reasons` says in this file's own words, never in the gate's, why a box may not go.
"""

from __future__ import annotations

import collections
import hashlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import LeaseholdError, Refusal
from leasehold.kit import manifest
from leasehold.kit.match import walk
from leasehold.ledger import books
from leasehold.lifecycle import approve, stopped_by_hand, teardown, teardown_readings, waivers
from leasehold.lifecycle.home import Home
from leasehold.model.job import Artifact, Job
from leasehold.model.lease import Lease
from leasehold.model.plan import Plan
from leasehold.model.profile import Verb
from leasehold.model.receipt import APPROVAL_LIFE_S, Approval, Receipt, Strength
from leasehold.platforms.contract import BoxState
from tests.support.fake_box import FakeBox, FakeRun

PATTERNS = ("*.pt", "sub/metrics.json")
VERBS = {"rehearsal": "terminate", "generic-ssh": "stop-by-hand", "local": "leave"}
STRANGER = "stranger-1"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # hundreds of ledgers, and fsync is not the question


class Crash(BaseException):
    """The power cut between two lines; nothing may catch it."""


class Clock:
    """The time module as teardown and approve see it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class WatchedLandlord:
    """Records every act, asks the world whether it was allowed, and behaves as it was told to."""

    def __init__(self, world: World, simulated: bool) -> None:
        self.simulated = simulated
        self.behaviour = "gone"
        self.acts: list[tuple[str, str]] = []
        self.gone = False
        self._world = world

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        self._world.judge_act(lease, verb)
        self.acts.append((lease.id, verb.name))
        if self.behaviour == "crash before":
            raise Crash
        if self.behaviour in ("asked", "unknown"):
            return BoxState(self.behaviour)
        self.gone = True
        self._world.box.reachable = False
        if self.behaviour == "crash after":
            raise Crash
        return BoxState.HELD if self.behaviour == "slow" else BoxState.GONE

    def poll(self, lease: Lease) -> BoxState:
        return BoxState.GONE if self.gone else BoxState.HELD


@dataclass
class Known:
    """What the world knows of a run, independent of ledger and gate."""

    plan: Plan
    lease: str
    started: bool
    receipt_number: int = 0  # which of all receipts; 0: none
    covered: tuple[str, ...] = ()
    sealed: dict[str, dict[str, tuple[Any, ...]]] = field(default_factory=dict)
    copy: dict[str, bytes] = field(default_factory=dict)  # every file of the export as it was verified
    proven: tuple[Artifact, ...] = ()  # the promises that the receipt proves
    waived: set[str] = field(default_factory=set)
    named: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)  # what each waiver saw, by cell


@dataclass(frozen=True)
class Order:
    """How one `lease down` goes: the yes and its flaw, what happens meanwhile, how the landlord behaves."""

    strength: Strength = Strength.TYPED
    flaw: str = "none"
    meanwhile: Callable[[], None] = lambda: None
    behaviour: str = "gone"


@dataclass
class Call:
    """One `lease down` as the world saw it."""

    against: list[str]
    approval: Approval | None = None


FLAWS = ("expired", "far future", "other verb", "other lease", "other evidence", "old", "person says no")
BEHAVIOURS = ("gone", "crash before", "crash after", "asked", "unknown", "slow")


class World:
    """Everything that can happen to a lease."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.folder = Path(tempfile.mkdtemp(prefix="teardown-world-", dir=MEMORY))
        self.clock = Clock()
        self.home = Home(self.folder / "home")
        self.box = FakeBox(self.folder / "box")
        self.landlord = WatchedLandlord(self, simulated=platform == "rehearsal")
        self.known: dict[str, Known] = {}
        self.given: dict[str, tuple[Approval, Any]] = {}  # by nonce: the approval, and the proof it was given for
        self.used: set[str] = set()
        self.pending: tuple[str, str, Any] | None = None  # lease, verb and proof of an act that began
        self.pending_from = self.pending_until = 0.0  # its yes is good between these
        self.call: Call | None = None
        self.seen: collections.Counter[str] = collections.Counter()
        self._receipts = 0
        self._patch = pytest.MonkeyPatch()
        for module in (teardown, approve):
            self._patch.setattr(module, "time", self.clock)
        for module in (teardown, teardown_readings):
            self._patch.setattr(module, "box_of", lambda home, lease: self.box)
        self.lease = self._open_lease()

    def close(self) -> None:
        self._patch.undo()
        self.home.ledger.close()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------ runs

    def start_run(self, cells: tuple[str, ...] = ("main",), reaches_box: bool = True) -> str:
        job = Job("toy", "x", tuple(Artifact(pattern, "bytes") for pattern in PATTERNS))
        plan = Plan(f"toy-{len(self.known) + 1}", job, "t" * 64, self.platform, ("setsid",), cells)
        self.known[plan.run] = Known(plan, self.lease.id, reaches_box)
        self._record_plan(plan)
        if reaches_box:
            self.box.start(plan, self.home.ledger.home_id)
            self._note(plan.run, "running", 5)
        return plan.run

    def end_run(self, run: str, state: str = "finished") -> None:
        here = self.box.runs[run]
        here.end(state)
        for cell in here.plan.cells:
            (here.out(cell) / "best.pt").write_bytes(b"weights of " + cell.encode())
            (here.out(cell) / "scratch.tmp").write_bytes(b"nobody promised this")
            if state == "finished":
                (here.out(cell) / "sub").mkdir(exist_ok=True)
                (here.out(cell) / "sub" / "metrics.json").write_bytes(b'{"loss": 1}')
        self._note(run, state, 9)

    def resume_run(self, run: str) -> None:
        self.box.runs[run].state = "running"
        self._note(run, "running", 12)

    def bring_home(self, run: str, cells: tuple[str, ...] = ()) -> None:
        """Manifest, copy, receipt: what lifecycle/bring_home.py leaves behind. Nothing if it cannot be sealed."""
        here, known = self.box.runs[run], self.known[run]
        cells = cells or known.plan.cells
        try:
            built = manifest.build(run, known.plan.sha256, {cell: here.places[cell] for cell in cells}, list(PATTERNS))
        except manifest.ManifestError:
            return
        data = manifest.encode(built)
        self._write_export(here, built, data)
        self._receipts += 1
        receipt = Receipt(
            run=run, plan_sha256=known.plan.sha256, manifest_sha256=hashlib.sha256(data).hexdigest(), cells=cells,
            files=built["totals"]["files"], bytes=built["totals"]["bytes"], loads=(), opaque=(), confinement=(),
            verified_unix=self._receipts,
        )  # fmt: skip
        self.home.ledger.append(
            "receipt_written", lease=known.lease, run=run, receipt=receipt.as_dict(), digest=receipt.digest,
            export=str(self.export(run)),
        )  # fmt: skip
        known.receipt_number, known.covered, known.proven = self._receipts, cells, known.plan.job.artifacts
        known.sealed = {cell: self._stats(here, cell) for cell in cells}
        known.copy = self._export_files(run)

    def mend_promise(self, run: str) -> None:
        """The job file now says that the weights must load as torch: the same run, another promise."""
        known = self.known[run]
        kinds = ("torch", "bytes") if known.plan.job.artifacts[0].loads == "bytes" else ("bytes", "bytes")
        artifacts = tuple(Artifact(pattern, loads) for pattern, loads in zip(PATTERNS, kinds, strict=True))
        known.plan = replace(known.plan, job=replace(known.plan.job, artifacts=artifacts))
        self._record_plan(known.plan)

    def waive(self, run: str, cell: str) -> None:
        """Give a cell up as `lease waive` does, with the files that are on the box then, if it answers."""
        reached = self.box.reachable and self.box.dies_after is None and run in self.box.runs
        place = self.folder / "waived" / f"{len(list(self.home.ledger.events()))}"
        place.mkdir(parents=True)
        files = [manifest.stat_entry(one) for one in walk(str(self.box.runs[run].out(cell)))] if reached else []
        found = [{**entry, "salvaged": True} for entry in files]
        waivers.record(self.home, books.find_run(self.home.ledger, run), {"cell": cell, "place": str(place)}, found)
        self.known[run].waived.add(cell)
        self.known[run].named[cell] = self._every_file(run, cell) if reached else {}

    # ------------------------------------------------------------ trouble

    def tamper_with_box(self, run: str, cell: str, how: str) -> None:
        path = self.box.runs[run].out(cell) / "best.pt"
        if how == "new":
            path.with_name("epoch-2.pt").write_bytes(b"newer weights")
        elif how == "new below" and path.parent.joinpath("sub").exists():
            path.with_name("sub").joinpath("unpromised.json").write_bytes(b"not an artifact: changes nothing")
        elif not path.exists():
            return
        elif how == "touch":
            shutil.copystat(__file__, path)
        elif how == "grow":
            path.write_bytes(path.read_bytes() + b"!")
        elif how == "in place":  # and the time set back, as tools do that keep times
            before = path.stat()
            path.write_bytes(path.read_bytes()[::-1])
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        elif how == "mapped" and path.stat().st_size:  # in memory no time moves at all
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0] ^= 1
        elif how == "second name":  # its ctime moves, and nothing else
            os.link(path, path.with_name("second-name"))
            path.with_name("second-name").unlink()
        elif how == "delete":
            path.unlink()
        elif how == "replace":  # equal bytes and times in another inode
            twin = path.with_name("twin")
            shutil.copy2(path, twin)
            twin.replace(path)

    def tamper_with_home(self, run: str, how: str) -> None:
        export = self.export(run)
        files = sorted(path for path in export.rglob("*.pt") if path.is_file())
        if how == "all":
            shutil.rmtree(export, ignore_errors=True)
        elif not files:
            return
        elif how == "flip":
            files[0].write_bytes(b"X" + files[0].read_bytes()[1:])
        elif how == "delete":
            files[0].unlink()
        elif how == "add":
            files[0].with_name("extra.pt").write_bytes(b"extra")
        elif how == "link":
            files[0].rename(self.folder / "elsewhere")
            files[0].symlink_to(self.folder / "elsewhere")
        elif how == "manifest":
            value = {**json.loads(known_manifest(export)), "created_unix": 1}
            (export / "manifest.json").write_bytes(manifest.encode(value))
        else:
            (export / "manifest.json").write_bytes(NONSENSE[how])

    def stranger(self, there: bool) -> None:
        if there and STRANGER not in self.box.runs:
            job = Job("stranger", "x", (Artifact("*.pt", "bytes"),))
            self.box.start(Plan(STRANGER, job, "t" * 64, "local", ("setsid",)), "somebody").end("finished")
        elif not there and STRANGER in self.box.runs:
            self.box.lose(STRANGER)

    def link(self, state: str) -> None:
        self.box.reachable = state != "down" and not self.landlord.gone
        self.box.dies_after = {"dies early": 0, "dies late": 1}.get(state)

    def set_right(self) -> None:
        """Bring the world back to where only the approval is missing, so that what follows stands alone."""
        self.link("up")
        self.stranger(False)
        for run, known in self.known.items():
            here = self.box.runs.get(run)
            if here is None:
                continue
            here.alive, here.holder = [], {"home": self.home.ledger.home_id}
            if here.state == "running":
                self.end_run(run)
            if here.state == "finished" and self.reasons_of(run):
                self.end_run(run)
                self.bring_home(run)
            elif here.state != "finished":
                for cell in known.plan.cells:
                    self.waive(run, cell)

    def say_stopped(self) -> None:
        """End the lease on a person's word; the box, and what is on it, may well live on."""
        stopped_by_hand.record_stopped(self.home, self.lease, "me")
        self.lease = books.find_lease(self.home.ledger, self.lease.id)
        self.pending = None

    def rent_again(self, same_box: bool) -> None:
        if not same_box or self.landlord.gone:
            for run in list(self.box.runs):
                self.box.lose(run)
        self.landlord.gone = False
        self.link("up")
        self.lease = self._open_lease()

    # ------------------------------------------------------------ lease down

    def tear_down(self, order: Order) -> str:
        """Run the real thing; return its end state, its error's code, or `crash`. Checks what it did."""
        self.landlord.behaviour = order.behaviour
        self.call = call = Call(self.reasons())
        was_open, was_gone, acts = self.lease.open, self.landlord.gone, len(self.landlord.acts)
        approving = self._approving(order, call)
        try:
            outcome = teardown.tear_down(
                self.home, self.lease, teardown.Wanted(), self.landlord, approving, lambda note: None
            ).value
        except Crash:
            outcome = "crash"
        except LeaseholdError as error:
            outcome = error.code
        acted = len(self.landlord.acts) > acts
        self.seen.update({outcome: 1, "acted": acted})
        assert self.box.open_wires == 0, "every wire was closed"
        if not was_open or (was_gone and self.pending):
            assert (acted, outcome) == (False, "gone")
        elif not acted:
            refused = call.against or order.flaw == "person says no" or self.approval_reasons(call)
            assert refused, f"everything was in order, and yet: {outcome}"
        self.call = None
        self.lease = books.find_lease(self.home.ledger, self.lease.id)
        assert self.lease.open == (outcome != "gone")
        self.pending = self.pending if self.lease.open and outcome != "asked" else None
        return outcome

    def _approving(self, order: Order, call: Call) -> Callable[[teardown.TeardownPlan], Approval]:
        def approving(plan: teardown.TeardownPlan) -> Approval:
            self.seen["approval asked for"] += 1
            if order.flaw == "person says no":
                raise Refusal("approval.not_given", "no")
            call.approval = self._approval(plan, order)
            order.meanwhile()
            call.against += self.reasons()
            return call.approval

        return approving

    def _approval(self, plan: teardown.TeardownPlan, order: Order) -> Approval:
        """Give a yes with this flaw, and note what it was given for."""
        if order.flaw == "old" and self.given:
            return self.given[list(self.given)[-1]][0]
        request = approve.new_request(plan.readings)
        changes: dict[str, dict[str, Any]] = {
            "expired": {"expires_unix": int(self.clock.now) - 1},
            "far future": {"expires_unix": int(self.clock.now) + 10 * 365 * 86400},
            "other verb": {"verb": "park"},
            "other lease": {"lease": "another-1"},
            "other evidence": {"evidence": "0" * 64},
        }
        approval = Approval(replace(request, **changes.get(order.flaw, {})), order.strength, "me", self.clock.now)
        self.given[request.nonce] = (approval, None if order.flaw == "other evidence" else self.proof())
        return approval

    # ------------------------------------------------------------ the oracle

    def judge_act(self, lease: Lease, verb: Verb) -> None:
        """The invariant, checked at the very moment of the act."""
        assert self.call is not None
        assert lease.id == self.lease.id and self.lease.open
        assert self.reasons() == []
        assert verb.name == VERBS[self.platform]
        proof = self.proof()
        self.seen["acted on receipts"] += any(known.covered for _, known in self.concerned())
        self.seen["acted on waivers"] += any(known.waived for _, known in self.concerned())
        if self.call.approval is None:
            assert self.pending == (lease.id, verb.name, proof), "acted without asking, and it was no retry"
            assert self.pending_from <= self.clock.now <= self.pending_until, "acted on a yes that has expired"
            self.seen["retried"] += 1
            return
        assert self.approval_reasons(self.call) == []
        self.used.add(self.call.approval.request.nonce)
        self.pending = (lease.id, verb.name, proof)
        self.pending_from, self.pending_until = self.call.approval.granted_unix, self.call.approval.request.expires_unix

    def approval_reasons(self, call: Call) -> list[str]:
        """Say why the yes of this call does not cover it; [] when it does, or none was asked for."""
        if call.approval is None:
            return []
        asked = call.approval.request
        wrong = {
            "used before": asked.nonce in self.used,
            "another act": (asked.verb, asked.lease) != (VERBS[self.platform], self.lease.id),
            "other evidence": self.given[asked.nonce][1] != self.proof(),
            "older or longer than 15 minutes": not 0 <= asked.expires_unix - self.clock.now <= APPROVAL_LIFE_S,
            "too weak": call.approval.strength is Strength.REHEARSAL and self.platform != "rehearsal",
            "only for parks": call.approval.strength is Strength.STANDING,
        }
        return [what for what, holds in wrong.items() if holds]

    def proof(self) -> Any:
        """What an approval rests on."""
        numbers = {run: k.receipt_number if k.proven == k.plan.job.artifacts else 0 for run, k in self.known.items()}
        return self.lease.id, [
            (run, numbers[run], sorted(k.waived), str(sorted(k.named.items()))) for run, k in self.concerned()
        ]

    def concerned(self) -> list[tuple[str, Known]]:
        """Runs of this lease, and whatever else of ours lies on its box."""
        ours = [run for run, known in self.known.items() if known.lease == self.lease.id or run in self.box.runs]
        return [(run, self.known[run]) for run in sorted(ours)]

    def reasons(self) -> list[str]:
        """Say why the box may not go now."""
        answers_needed = 1 + sum(run in self.box.runs for run, _ in self.concerned())
        breaks = self.box.dies_after is not None and self.box.dies_after < answers_needed
        against = [] if self.box.reachable and not breaks else ["out of reach"]
        against += ["a stranger's run is there"] * (STRANGER in self.box.runs)
        for run, _ in self.concerned():
            against += self.reasons_of(run)
        return against

    def reasons_of(self, run: str) -> list[str]:
        known, here = self.known[run], self.box.runs.get(run)
        promised = known.plan.cells if here or known.started else ()
        proven = known.receipt_number if known.proven == known.plan.job.artifacts else 0
        home = {*(known.covered if proven else ()), *known.waived}
        against = [f"{cell} is not home" for cell in promised if cell not in home]
        if proven:
            against += ["the home copy changed"] * (self._export_files(run) != known.copy)
            for cell, sealed in known.sealed.items():
                against += [f"{cell} changed on the box"] * ((self._stats(here, cell) if here else {}) != sealed)
        for cell in known.waived - set(known.covered if proven else ()):
            if here and cell in promised:
                stray = self._every_file(run, cell).items() - known.named.get(cell, {}).items()
                against += [f"{cell} was given up without {sorted(stray)}"] * bool(stray)
        if here:
            against += ["it is alive"] * bool(here.alive)
            against += [f"it is {here.state}"] * (here.state not in ("finished", "failed", "stopped"))
            against += ["it is another home's"] * (here.holder["home"] not in ("", self.home.ledger.home_id))
        return [f"{run}: {reason}" for reason in against]

    # ------------------------------------------------------------ small parts

    def export(self, run: str) -> Path:
        return self.folder / "results" / "export" / run

    def _open_lease(self) -> Lease:
        return books.open_lease(self.home.ledger, self.box.name, self.platform, "/root", "1USD/h")

    def _record_plan(self, plan: Plan) -> None:
        self.home.ledger.append(
            "run_planned", lease=self.known[plan.run].lease, run=plan.run, plan=plan.as_dict(), name="toy",
            box=self.box.name, project="", results=str(self.folder / "results"),
        )  # fmt: skip

    def _note(self, run: str, state: str, seq: int) -> None:
        self.home.ledger.append("run_seen", lease=self.known[run].lease, run=run, state=state, seq=seq)

    def _write_export(self, here: FakeRun, built: dict[str, Any], data: bytes) -> None:
        export = self.export(here.plan.run)
        shutil.rmtree(export, ignore_errors=True)
        for cell, entries in built["cells"].items():
            for entry in entries:
                target = export / "cells" / cell / entry["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((here.out(cell) / entry["path"]).read_bytes())
        (export / "manifest.json").write_bytes(data)

    def _stats(self, here: FakeRun, cell: str) -> dict[str, tuple[Any, ...]]:
        """Stat and read what the patterns name, without kit.match."""
        out = here.out(cell)
        paths = [path for path in [*out.glob("*.pt"), out / "sub" / "metrics.json"] if path.exists()]
        infos = {str(path.relative_to(out)): path.lstat() for path in paths}
        return {
            name: (info.st_size, info.st_mtime_ns, info.st_ino, (out / name).read_bytes())
            for name, info in infos.items()
        }

    def _every_file(self, run: str, cell: str) -> dict[str, tuple[int, ...]]:
        """Stat all that lies in a cell's folder, without kit.match."""
        out = self.box.runs[run].out(cell)
        infos = {str(path.relative_to(out)): path.lstat() for path in out.rglob("*") if path.is_file()}
        return {name: (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino) for name, info in infos.items()}

    def _export_files(self, run: str) -> dict[str, bytes]:
        """Read the home copy; a link is not a copy."""
        export = self.export(run)
        files = [path for path in export.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(export)): path.read_bytes() for path in files}


NONSENSE = {
    "empty": b"",
    "cut": b"{",
    "cells a number": b'{"cells": 5}',
    "cell a number": b'{"cells": {"main": 5}}',
    "entry a number": b'{"cells": {"main": [5]}}',
    "entry without a path": b'{"cells": {"main": [{}]}}',
    "deep": b"[" * 20000,
}
HOME_TROUBLE = ("all", "flip", "delete", "add", "link", "manifest", *NONSENSE)
BOX_TROUBLE = ("touch", "grow", "replace", "delete", "new", "new below", "in place", "mapped", "second name")


def known_manifest(export: Path) -> bytes:
    """Read a manifest that an earlier trouble may have spoiled."""
    data = (export / "manifest.json").read_bytes()
    return data if data not in NONSENSE.values() else b"{}"
