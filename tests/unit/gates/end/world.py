"""A home, a box and a landlord for the teardown tests, with a bookkeeping of its own.

The real lifecycle/ending/teardown.py, ledger and gates work here on real files; only the link, the processes and the
landlord are played. `reasons` says in this file's own words, never in the gate's, why a box may not go.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import LeaseholdError, Refusal
from leasehold.kit.files import manifest
from leasehold.ledger import books
from leasehold.lifecycle.approval import approve
from leasehold.lifecycle.ending import harmless, stopped_by_hand, teardown, teardown_readings, waive
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.heard_again import note_heard
from leasehold.lifecycle.machine.shared_meters import note_machine
from leasehold.model.job.job import Artifact, Job
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.machine import machine_read
from leasehold.model.platform.profile import Verb
from leasehold.model.run.note import silent
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Approval, Receipt, Strength
from leasehold.platforms.contract import BoxState
from tests.support.fake_box import FakeBox, FakeRun

PATTERNS = ("*.pt", "sub/metrics.json")
VERBS = {"rehearsal": "terminate", "generic-ssh": "stop-by-hand", "local": "leave"}
DELETES = ("rehearsal", "generic-ssh")  # where the verb ends the disk with our folder
WIDE = ("generic-ssh",)  # where it ends the whole machine
STRANGER, STRANGER_ELSEWHERE = "stranger-1", "stranger-2"
ELSEWHERE = "/another-root"
HOST_KEY = "SHA256:the-fake-machine"
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
    words: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)  # and what was in it
    missed: set[str] = field(default_factory=set)  # waived while the box answered and showed no such run
    cleared: set[tuple[int, str]] = field(default_factory=set)  # processes that a person called harmless


@dataclass(frozen=True)
class Order:
    """How one `lease down` goes: the yes and its flaw, what happens meanwhile, how the landlord behaves."""

    strength: Strength = Strength.TYPED
    flaw: str = "none"
    meanwhile: Callable[[], None] = lambda: None
    behaviour: str = "gone"
    facts_checked: str = ""  # what a person saw when looking at doubtful facts


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
        self.other = FakeBox(self.folder / "another-root", self.box.machine)  # the same machine
        self.second: Lease | None = None  # on that other root, or under another name
        self.project = self.folder / "project"
        self.facts_checked = ""
        self.closed_by_word = False
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
        for module in (teardown, teardown_readings, waive, harmless, stopped_by_hand):
            self._patch.setattr(module, "box_of", lambda home, lease: self._box_for(lease))
        self.lease = self._open_lease()

    def close(self) -> None:
        self._patch.undo()
        self.home.ledger.close()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------ runs

    def start_run(
        self, cells: tuple[str, ...] = ("main",), reaches_box: bool = True, lease: Lease | None = None
    ) -> str:
        job = Job("toy", "x", tuple(Artifact(pattern, "bytes") for pattern in PATTERNS))
        plan = Plan(f"toy-{len(self.known) + 1}", job, "t" * 64, self.platform, ("setsid",), cells)
        lease = lease or self.lease
        self.known[plan.run] = Known(plan, lease.id, reaches_box)
        self._record_plan(plan)
        if reaches_box:
            self._box_for(lease).start(plan, self.home.ledger.home_id)
            self._note(plan.run, "running", 5)
        return plan.run

    def here(self, run: str) -> FakeRun | None:
        """A run as it lies on the machine, whether anybody sees it there or not."""
        return self.box.runs.get(run) or self.other.runs.get(run)

    def there(self, run: str) -> FakeRun:
        found = self.here(run)
        assert found is not None
        return found

    def in_sight(self, run: str) -> FakeRun | None:
        return self.box.in_sight.get(run) or self.other.in_sight.get(run)

    def end_run(self, run: str, state: str = "finished") -> None:
        here = self.there(run)
        here.end(state)
        for cell in here.plan.cells:
            (here.out(cell) / "best.pt").write_bytes(b"weights of " + cell.encode())
            (here.out(cell) / "scratch.tmp").write_bytes(b"nobody promised this")
            if state == "finished":
                (here.out(cell) / "sub").mkdir(exist_ok=True)
                (here.out(cell) / "sub" / "metrics.json").write_bytes(b'{"loss": 1}')
        self._note(run, state, 9)

    def resume_run(self, run: str) -> None:
        self.there(run).state = "running"
        self._note(run, "running", 12)

    def bring_home(self, run: str, cells: tuple[str, ...] = ()) -> None:
        """Manifest, copy, receipt: what bring_home.py leaves behind. Nothing if it cannot be sealed."""
        here, known = self.there(run), self.known[run]
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
        """Give a cell up with `lease waive`: it covers the files that are on the box then, if it answers."""
        known, here = self.known[run], self.in_sight(run)
        record = books.find_run(self.home.ledger, run)
        try:
            waive.waive(self.home, record, cell, lambda question: f"give up {cell} of {run}", silent)
        except LeaseholdError as error:  # it lives, is home, or the link broke while it was salvaged
            self.seen[f"waive: {error.code}"] += 1
            return
        answers = self.box.reachable and self.box.dies_after != 0
        known.waived.add(cell)
        known.named[cell] = self._every_file(run, cell) if answers and here else {}
        known.words[cell] = self._every_word(run, cell) if answers and here else []
        (known.missed.add if answers and not here else known.missed.discard)(cell)

    def take_back(self, run: str, cell: str) -> None:
        """End a waiver: the cell is owed again."""
        waive.take_back(self.home, books.find_run(self.home.ledger, run), cell)
        self.known[run].waived.discard(cell)

    # ------------------------------------------------------------ trouble

    def tamper_with_box(self, run: str, cell: str, how: str) -> None:
        path = self.there(run).out(cell) / "best.pt"
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
        elif how == "through a link":  # as a tool writes that knows the file by another name
            before, alias = path.stat(), self.folder / "alias"
            os.link(path, alias)
            alias.write_bytes(alias.read_bytes()[::-1])
            os.utime(alias, ns=(before.st_atime_ns, before.st_mtime_ns))
            alias.unlink()
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
        self.box.dies_after = {"dies early": 0, "dies late": 1, "dies later": 3, "dies last": 5}.get(state)

    def trouble(self, run: str, what: str) -> None:
        """Let one thing go wrong with a run, or around it, that no file of its results shows."""
        here = self.there(run)
        if what in ("frozen", "locks lost"):  # the trainer has ended; whether its caretaker has, nobody can say
            here.state, here.alive = "running", []
            here.frozen, here.locks_lost = what == "frozen", what == "locks lost"
        elif what == "unproven":
            here.unproven = "line 7 of its journal cannot be read"
        elif what == "no holder":
            here.holder = {}
        elif what == "garbled holder":
            here.holder = {"home": "", "unreadable": "holder.json is no JSON"}
        elif what == "unreadable":
            here.problem = "plan.json is gone"
        elif what in OCCUPANTS:
            here.occupants.append(self._process(4000 + len(here.occupants), OCCUPANTS[what]))
        elif what == "another process" and here.occupants:  # it has the number of one that may have been cleared
            here.occupants[-1] = self._process(here.occupants[-1]["pid"], "writes", started="later")
        elif what == "unmounted":
            self.box.machine.unmounted.add(str(self.box.root))
        elif what == "home on the box":
            self.keep_results_on_box(True)
        elif what == "home seen on the box":
            self.box.machine.sees_home = True
        elif what in OVERLAYS:
            self.write_overlay(what)
        elif what == "stranger elsewhere" and STRANGER_ELSEWHERE not in self.other.runs:
            job = Job("stranger", "x", (Artifact("*.pt", "bytes"),))
            plan = Plan(STRANGER_ELSEWHERE, job, "t" * 64, "local", ("setsid",))
            self.other.start(plan, "somebody").end("finished")

    @staticmethod
    def _process(pid: int, kind: str, started: str = "then") -> dict[str, Any]:
        return {"pid": pid, "started": started, "boot": "b", "command": "python w.py", "how": "works", "kind": kind}

    def call_harmless(self, run: str, pid: int) -> None:
        """Have a person type that a process is harmless; it counts for that very process."""
        with contextlib.suppress(LeaseholdError):
            said = harmless.call_harmless(self.home, books.find_run(self.home.ledger, run), pid, harmless_phrase(pid))
            self.known[run].cleared.add((said["pid"], said["started"]))

    def keep_results_on_box(self, there: bool) -> None:
        """Have the results' folder lie in the box's own folder, by a link, or at home again."""
        results, kept = self.folder / "results", self.box.root / "kept"
        if there and not results.is_symlink():
            results.mkdir(exist_ok=True)
            self.box.root.mkdir(exist_ok=True)
            results.rename(kept)
            results.symlink_to(kept)
        elif not there and results.is_symlink():
            results.unlink()
            kept.rename(results)

    def write_overlay(self, what: str) -> None:
        """Have the project state facts of the platform less cautiously than they are."""
        facts = OVERLAYS[what].get(self.platform)
        self._overlay.parent.mkdir(parents=True, exist_ok=True)
        if facts is not None:
            self._overlay.write_text(json.dumps(facts))

    @property
    def _overlay(self) -> Path:
        return self.project / ".leasehold" / "profiles" / f"{self.platform}.yaml"

    def rent_second(self, how: str, cells: tuple[str, ...] = ("main",)) -> str:
        """Lease the same machine once more, under another root or another name, and start a run there."""
        if self.second is None or not self.second.open:
            name = self.box.name if how == "another root" else "ssh:fake-too"
            self.second = books.open_lease(self.home.ledger, name, self.platform, ELSEWHERE, "1USD/h")
            for lease, box in ((self.lease, self.box), (self.second, self.other)):
                note_machine(self.home, lease, machine_read(box.identity(), HOST_KEY), silent)
        return self.start_run(cells, lease=self.second)

    def set_right(self) -> None:
        """Bring the world back to where only the approval is missing, so that what follows stands alone."""
        self.link("up")
        self.stranger(False)
        if STRANGER_ELSEWHERE in self.other.runs:
            self.other.lose(STRANGER_ELSEWHERE)
        self.box.machine.unmounted.clear()
        self.box.machine.sees_home = False
        self.keep_results_on_box(False)
        self._overlay.unlink(missing_ok=True)
        for run, known in self.known.items():
            here = self.here(run)
            if here is None:
                continue
            here.alive, here.holder, here.occupants = [], {"home": self.home.ledger.home_id}, []
            here.problem, here.unproven, here.frozen, here.locks_lost = "", "", False, False
            if here.state == "running":
                self.end_run(run)
            if here.state == "finished" and self.reasons_of(run):
                self.end_run(run)
                self.bring_home(run)
            elif here.state != "finished":
                for cell in known.plan.cells:
                    self.waive(run, cell)

    def say_stopped(self) -> bool:
        """End the lease on a person's word, which is not taken while platform or box say otherwise."""
        asked = self.landlord if self.landlord.simulated else None
        answers = self.box.reachable and self.box.dies_after != 0
        on = not self.landlord.gone if self.landlord.simulated else answers
        try:
            stopped_by_hand.refuse_while_on(self.home, self.lease, asked)
        except Refusal as refusal:
            assert on and refusal.code == "lease.answers"
            self.seen["said stopped, and it answers"] += 1
            return False
        assert not on, "a person's word was taken against the box's own"
        stopped_by_hand.record_stopped(self.home, self.lease, "me")
        self._refresh()
        self.pending, self.closed_by_word = None, True
        self.seen["said stopped"] += 1
        return True

    def hear_again(self) -> None:
        """The box of a closed lease answers somebody: a word that was wrong is taken back."""
        self.link("up")
        with self.box.connect() as engine:
            note_heard(self.home, self.lease, engine.runs())
        held = [lease.id for lease in books.leases(self.home.ledger, only_open=True) if lease.box == self.lease.box]
        counted = bool(held) and held != [self.lease.id]
        self._refresh()
        assert self.lease.open is (self.closed_by_word and not counted)
        self.seen["heard again"] += self.lease.open

    def _refresh(self) -> None:
        self.lease = books.find_lease(self.home.ledger, self.lease.id)
        self.second = self.second and books.find_lease(self.home.ledger, self.second.id)

    def rent_again(self, same_box: bool) -> None:
        if not same_box or self.landlord.gone:
            for box in (self.box, self.other):
                for run in list(box.runs):
                    box.lose(run)
            self.box.machine.unmounted.clear()
        self.landlord.gone = False
        self.link("up")
        self.lease, self.closed_by_word = self._open_lease(), False

    # ------------------------------------------------------------ lease down

    def tear_down(self, order: Order) -> str:
        """Run the real thing; return its end state, its error's code, or `crash`. Checks what it did."""
        self.landlord.behaviour, self.facts_checked = order.behaviour, order.facts_checked
        self.call = call = Call(self.reasons())
        was_open, was_gone, acts = self.lease.open, self.landlord.gone, len(self.landlord.acts)
        approving = self._approving(order, call)
        try:
            outcome = teardown.tear_down(
                self.home, self.lease, teardown.Wanted("", order.facts_checked), self.landlord, approving, silent
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
            self.seen.update({f"kept for: {kind_of(reason)}" for reason in call.against})
        self.call, self.facts_checked = None, ""
        self._refresh()
        self.closed_by_word = self.closed_by_word and not self.lease.open
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
        assert bool(verb.deletes) == (not verb.reversible) == (self.platform in DELETES)
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
            (run, numbers[run], [(cell, k.named[cell], k.words[cell]) for cell in sorted(k.waived)])
            for run, k in self.concerned()
        ]

    def concerned(self) -> list[tuple[str, Known]]:
        """Runs of this lease, and whatever else of ours is seen on what the verb ends."""
        ended = {*self.box.in_sight, *(self.other.in_sight if self.platform in WIDE else ())}
        ours = [run for run, known in self.known.items() if known.lease == self.lease.id or run in ended]
        return [(run, self.known[run]) for run in sorted(ours)]

    def reasons(self) -> list[str]:
        """Say why the box may not go now."""
        against = [] if self.box.reachable and not self._breaks() else ["out of reach"]
        against += ["a stranger's run is there"] * (STRANGER in self.box.in_sight)
        against += ["what lies there cannot be read"] * any(run.problem for run in self.box.in_sight.values())
        if self.platform in WIDE:
            against += ["a stranger's run is elsewhere on it"] * (STRANGER_ELSEWHERE in self.other.runs)
            against += ["what lies elsewhere on it cannot be read"] * any(r.problem for r in self.other.runs.values())
            against += self._owed_elsewhere()
        against += self._facts_in_doubt()
        concerned = self.concerned()
        if self.platform in DELETES and concerned and self._results_on_box():
            against += ["the home copy lies on the box"]
        for run, _ in concerned:
            against += self.reasons_of(run)
        return against

    def _breaks(self) -> bool:
        """Whether the link breaks before all has been read that must be: the last look reads the files too."""
        if self.box.dies_after is None:
            return False
        seen = [run for run, _ in self.concerned() if run in self.box.in_sight and not self.there(run).problem]
        around = 2 * (self.platform in DELETES)  # which roots there are, and whether a note left at home is seen there
        here = 1 + sum(map(self._answers_for, seen)) + around
        elsewhere = [run for run, _ in self.concerned() if run in self.other.runs and not self.there(run).problem]
        there = sum(map(self._answers_for, elsewhere)) if self.platform in WIDE else 0
        return self.box.dies_after < max(here, there)

    def _answers_for(self, run: str) -> int:
        known = self.known[run]
        proven = known.receipt_number and known.proven == known.plan.job.artifacts
        return 1 + bool(proven and any(known.sealed.values()))

    def _owed_elsewhere(self) -> list[str]:
        if self.second is None or not self.second.open or self.second.id == self.lease.id:
            return []
        runs = [known for known in self.known.values() if known.lease == self.second.id and known.started]
        owed = any(set(known.plan.cells) - set(known.covered) - known.waived for known in runs)
        return ["another lease of this machine has results on it"] * owed

    def _facts_in_doubt(self) -> list[str]:
        if self.facts_checked:
            return []
        of_project = any(known.lease == self.lease.id for known in self.known.values()) and self._overlay.exists()
        shared = self.box.machine.sees_home and self.platform in WIDE
        return ["a project's file relaxes facts"] * of_project + ["the box sees the disk with the home copy"] * shared

    def _results_on_box(self) -> bool:
        results, root = os.path.realpath(self.folder / "results"), os.path.realpath(self.box.root)
        return results.startswith(root + "/")

    def reasons_of(self, run: str) -> list[str]:
        known, here = self.known[run], self.in_sight(run)
        if here and here.problem:
            return [f"{run}: it cannot be read"]
        promised = known.plan.cells if here or known.started else ()
        proven = known.receipt_number if known.proven == known.plan.job.artifacts else 0
        home = {*(known.covered if proven else ()), *known.waived}
        ended = here is not None and here.state in ("failed", "stopped")
        against = [
            f"{cell} is not home"
            for cell in promised
            if cell not in home and not (ended and not self._every_file(run, cell))
        ]
        if proven:
            against += ["the home copy changed"] * (self._export_files(run) != known.copy)
            for cell, sealed in known.sealed.items():
                against += [f"{cell} changed on the box"] * ((self._stats(here, cell) if here else {}) != sealed)
        for cell in (known.waived - set(known.covered if proven else ())) & set(promised):
            if here:
                stray = self._every_file(run, cell).items() - known.named.get(cell, {}).items()
                against += [f"{cell} was given up without {sorted(stray)}"] * bool(stray)
            else:
                against += [f"{cell} was given up before the run was missed"] * (cell not in known.missed)
        if here:
            against += self._reasons_of_life(known, here)
        return [f"{run}: {reason}" for reason in against]

    def _reasons_of_life(self, known: Known, here: FakeRun) -> list[str]:
        against = ["it is alive"] * bool(here.alive)
        against += [f"it is {here.state}"] * (here.state not in ("finished", "failed", "stopped"))
        against += ["it is another home's, or nobody knows whose"] * (
            here.holder.get("home") != self.home.ledger.home_id
        )
        against += ["how it stands is not proven"] * bool(here.unproven)
        writers = [one for one in here.occupants if one["kind"] != "reads"]
        unclear = [one for one in writers if (one["pid"], one["started"]) not in known.cleared]
        return against + ["somebody writes in its folders, or might"] * bool(unclear)

    # ------------------------------------------------------------ small parts

    def export(self, run: str) -> Path:
        return self.folder / "results" / "export" / run

    def _box_for(self, lease: Lease) -> FakeBox:
        return self.other if lease.root == ELSEWHERE else self.box

    def _open_lease(self) -> Lease:
        return books.open_lease(self.home.ledger, self.box.name, self.platform, "/root", "1USD/h")

    def _record_plan(self, plan: Plan) -> None:
        self.home.ledger.append(
            "run_planned", lease=self.known[plan.run].lease, run=plan.run, plan=plan.as_dict(), name="toy",
            box=self.box.name, project=str(self.project), results=str(self.folder / "results"),
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
        out = self.there(run).out(cell)
        infos = {str(path.relative_to(out)): path.lstat() for path in out.rglob("*") if path.is_file()}
        return {name: (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino) for name, info in infos.items()}

    def _every_word(self, run: str, cell: str) -> list[tuple[str, bytes]]:
        out = self.there(run).out(cell)
        return sorted((str(path.relative_to(out)), path.read_bytes()) for path in out.rglob("*") if path.is_file())

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
BOX_TROUBLE = (
    "touch", "grow", "replace", "delete", "new", "new below", "in place", "through a link", "mapped", "second name",
)  # fmt: skip
OCCUPANTS = {"writer": "writes", "stander": "stands", "reader": "reads"}
_SURVIVES = {"stop": "yes", "destroy": "yes", "balance_zero": "yes"}
_MILD = {"kind": "park", "ends": "stop", "reversible": True}
OVERLAYS: dict[str, dict[str, dict[str, Any]]] = {
    "harmless overlay": {
        "rehearsal": {
            "traits": {"meter_stop_irreversible": "no"},
            "tiers": [{"name": "box disk", "survives": _SURVIVES}],
            "verbs": [{"name": "terminate", **_MILD}],
        },
        "generic-ssh": {
            "traits": {"meter_stop_irreversible": "no"},
            "tiers": [{"name": "system disk", "survives": _SURVIVES}],
            "verbs": [{"name": "stop-by-hand", **_MILD}],
        },
    },
    "desk overlay": dict.fromkeys(DELETES, {"extends": "local", "title": "a desk"}),
}
QUIET_TROUBLE = (
    "frozen", "locks lost", "unproven", "no holder", "garbled holder", "unreadable", *OCCUPANTS, "another process",
    "unmounted", "home on the box", "home seen on the box", *OVERLAYS, "stranger elsewhere",
)  # fmt: skip


def known_manifest(export: Path) -> bytes:
    """Read a manifest that an earlier trouble may have spoiled."""
    data = (export / "manifest.json").read_bytes()
    return data if data not in NONSENSE.values() else b"{}"


def kind_of(reason: str) -> str:
    """Say what sort of reason it is, without names."""
    plain = re.sub(r" without .*", " without some files", reason)
    return re.sub(r"^toy-\d+: ((main|a|b) )?", lambda found: "a cell " if found[1] else "", plain)


def harmless_phrase(pid: int) -> Callable[[str], str]:
    """Answer as a person who knows that process."""
    return lambda question: f"pid {pid} is harmless"
