"""The teardown gate. Pure: readings in, a verdict out; it never looks at a log line.

Nothing may be stopped, released or emptied until every promised cell is home with a receipt or was waived by a
person, and the box still holds exactly what the receipt lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.text.safe_text import one_line
from leasehold.model.run.nonfinite import summary
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Approval, ApprovalRequest, Receipt, Strength
from leasehold.model.run.unread_files import summary as summary_unread
from leasehold.model.run.unread_files import unread
from leasehold.model.run.verdict import Finding, Verdict, judge, passes, refuses, unknown
from leasehold.model.values.units import say_bytes

from .box_copy import ReadInFull, judge_box_copy
from .occupants import judge_occupants
from .waivers import judge_absent, judge_given_up

_NAMED = 8  # cells listed in one line; the rest are counted


@dataclass(frozen=True)
class Moved:
    """A cell that a run once had and another box now has; without a box, it is not assigned yet."""

    cell: str
    box: str = ""
    settled: bool = False  # home or given up, by that box's run


@dataclass(frozen=True)
class RunReadings:
    """What is known of one run on the box that is to be torn down."""

    run: str
    promised: tuple[str, ...]
    receipt: Receipt | None = None
    waived: tuple[str, ...] = ()
    sealed: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # the manifest's entries by cell
    present: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # stats on the box now, by cell
    alive: tuple[int, ...] = ()
    state: str = "unknown"
    held_by_other_home: bool = False
    held_by: str = ""  # who and since when, for display
    home_damage: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    given_up: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # what each waiver covers, by cell
    remains: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # every file of waived cells on the box now
    bare: tuple[str, ...] = ()  # cells that wrote no file below the run's folder, whether promised or not
    beside: dict[str, str] = field(default_factory=dict)  # by cell, a file that it wrote into its working folder
    missed: tuple[str, ...] = ()  # of an absent run: cells that a person knowingly gave up, or had removed
    read: ReadInFull = field(default_factory=ReadInFull)  # files that the box has just read to their end
    in_full: bool = False  # each file that is home must have been read in full
    unread: tuple[tuple[str, str], ...] = ()  # what could not be read on the box, and what to do about it
    occupants: tuple[dict[str, Any], ...] = ()  # those working in its folders; `cleared`: a person declared it harmless
    unseen: tuple[str, ...] = ()  # processes that may not be inspected


@dataclass(frozen=True)
class TeardownReadings:
    """All readings that the gate judges."""

    lease: str
    verb: str
    reachable: bool
    runs: tuple[RunReadings, ...]
    strangers: tuple[str, ...] = ()  # runs on the box that this home does not know
    unreadable: tuple[tuple[str, str], ...] = ()  # runs on the box, known or not, that cannot be identified
    unreachable_because: str = ""
    unreachable_excused: str = ""  # why a rented box may be judged without reaching it, as its landlord proves
    other_leases: tuple[str, ...] = ()  # open leases on the same machine whose runs are not home
    harmless: bool = False  # a park: it can be undone and deletes nothing
    doubts: tuple[str, ...] = ()  # facts behind the verb that are stale or were never confirmed
    facts_checked: str = ""  # what a person stated after checking them
    around: tuple[Finding, ...] = ()  # of the rest of the machine, and of where the home copies lie

    @property
    def evidence(self) -> str:
        """Return the hash of receipts and waivers to which an approval is bound."""
        proof = [
            {
                "run": r.run,
                "receipt": r.receipt.digest if r.receipt else "",
                "waived": sorted(r.waived),
                **({"given_up": r.given_up} if r.given_up else {}),
            }
            for r in self.runs
        ]
        return digest({"lease": self.lease, "proof": sorted(proof, key=lambda item: str(item["run"]))})


def judge_teardown(readings: TeardownReadings) -> Verdict:
    """Judge whether the verb may be requested at all."""
    findings: list[Finding] = []
    if not readings.reachable and readings.unreachable_excused:
        findings.append(passes(f"the box cannot be reached, and {readings.unreachable_excused}"))
    elif not readings.reachable:
        why = readings.unreachable_because or "no answer"
        hint = f"if the console shows it off or gone: lease down {readings.lease} --stopped"
        findings.append(unknown(f"the box cannot be reached ({why}), so what is on it is unknown", hint))
    for other in readings.other_leases:
        findings.append(
            refuses(f"{other} is open on the same machine, and its runs would go with it", f"lease down {other}")
        )
    for stranger in readings.strangers:
        findings.append(
            refuses(
                f"run {stranger} is on this box and this home does not know it",
                "bring it home from where it was started",
            )
        )
    for name, why in readings.unreadable:
        hint = "look at it there and mend it, or bring it home from where it was started"
        findings.append(unknown(f"run {name} on this box cannot be read: {why}", hint))
    for run in readings.runs:
        findings += _judge_parked(run) if readings.harmless else _judge_run(run, readings.reachable)
    findings += [_judge_doubt(doubt, readings) for doubt in readings.doubts]
    if not findings:
        findings.append(passes("no run was ever started on this lease"))
    findings += readings.around
    return Verdict("teardown", tuple(findings))


def judge_approval(
    readings: TeardownReadings,
    approval: Approval | None,
    now_unix: float,
    simulated: bool,
    irreversible: bool,
) -> Verdict:
    """Judge whether this approval covers exactly this act, now."""
    if approval is None:
        return Verdict("approval", (refuses(f"nobody approved `{readings.verb}` on {readings.lease}"),))
    asked = approval.request
    findings = [
        _as_said(asked.verb == readings.verb, f"approved verb is `{asked.verb}`, requested is `{readings.verb}`"),
        _as_said(asked.lease == readings.lease, f"approved lease is {asked.lease}, requested is {readings.lease}"),
        _as_said(asked.evidence == readings.evidence, "the receipts are the ones that were approved"),
        _as_said(  # a request is a file: one that claims a longer life was not written by us
            now_unix <= asked.expires_unix <= now_unix + APPROVAL_LIFE_S, "the approval is at most 15 minutes old"
        ),
        _as_said(
            approval.strength is not Strength.REHEARSAL or simulated,
            "rehearsal approvals open simulated landlords only",
        ),
        _as_said(
            not irreversible or approval.strength in (Strength.TYPED, Strength.SIGNED) or simulated,
            "an irreversible verb needs a typed or signed approval",
        ),
        _as_said(
            approval.strength is not Strength.STANDING or readings.harmless and _all_proven(readings),
            "a standing approval covers a reversible park with every result home",
        ),
    ]
    return Verdict("approval", tuple(findings))


def ask_for(readings: TeardownReadings, nonce: str, expires_unix: int) -> ApprovalRequest:
    """Build the request that an approval answers."""
    return ApprovalRequest(readings.verb, readings.lease, readings.evidence, nonce, expires_unix)


def _judge_run(run: RunReadings, reachable: bool) -> list[Finding]:
    findings: list[Finding] = []
    covered = set(run.receipt.cells) if run.receipt else set()
    for cell in run.promised:
        findings.append(_judge_cell(run, cell, covered))
    for damage in run.home_damage:
        findings.append(refuses(f"{run.run}: {damage}", f"lease pull {run.run}"))
    findings += _judge_moved(run, reachable)
    findings += _judge_life(run, reachable)
    if reachable:
        findings += judge_box_copy(run.run, covered, run.sealed, run.present, run.read, run.in_full)
        findings += judge_occupants(run.run, run.occupants, run.unseen)
    if not findings and run.state not in ("planned", "absent"):
        findings.append(passes(f"{run.run}: it promised no results"))
    return findings


def _judge_moved(run: RunReadings, looked: bool) -> list[Finding]:
    """Report which cells moved where, and which of their files are still here."""
    findings = []
    for box in dict.fromkeys(moved.box for moved in run.moved):
        gone = [moved for moved in run.moved if moved.box == box]
        them = "it" if len(gone) == 1 else "them"
        names = ", ".join(moved.cell for moved in gone[:_NAMED]) + (" …" if len(gone) > _NAMED else "")
        which = f"cell {names}" if len(gone) == 1 else f"{len(gone)} cells ({names})"
        settled = sum(moved.settled for moved in gone)
        home = "home there" if settled == len(gone) else f"{settled} of {len(gone)} home there so far"
        where = f"moved to {box}, which answers for {them} now ({home})"
        if not box:
            where = f"left this run, and no box has {them} yet: the same lease run gives {them} to one"
        findings.append(passes(f"{run.run}: {which} {where}{_say_left(run, gone, them) if looked else ''}"))
    return findings


def _say_left(run: RunReadings, gone: list[Moved], them: str) -> str:
    files = [entry for moved in gone for entry in run.present.get(moved.cell, ())]
    if not files:
        return f"; nothing of {them} is left here"
    size = say_bytes(sum(int(entry["bytes"]) for entry in files))
    return f"; what lies here of {them} ({len(files)} file{'s' * (len(files) > 1)}, {size}) goes with the box"


def _judge_life(run: RunReadings, reachable: bool = True) -> list[Finding]:
    findings = [unknown(f"{run.run}: {what}", hint) for what, hint in run.unread]
    if run.held_by_other_home:
        who = f": {run.held_by}" if run.held_by else ""
        hint = f"act from there, or: lease attach {run.run} --take-over"
        findings.append(refuses(f"{run.run}: another home holds this run{who}", hint))
    if run.alive:
        pids = ", ".join(map(str, run.alive[:5]))
        findings.append(refuses(f"{run.run}: processes of the run live (pid {pids})", f"lease stop {run.run}"))
    if reachable and run.state not in ("finished", "failed", "stopped", "absent"):
        findings.append(refuses(f"{run.run}: the run is {run.state}", f"wait, or lease stop {run.run}"))
    return findings


def _judge_parked(run: RunReadings) -> list[Finding]:
    """Check only that a park ends no running work: it deletes nothing, so what is not home stays where it is."""
    findings = []
    covered = set(run.receipt.cells) if run.receipt else set()
    for cell in run.promised:
        where = _home(run, cell) if cell in covered else "NOT home; it stays on the parked box"
        findings.append(passes(f"{run.run}/{cell}: {where}"))
    return findings + _judge_moved(run, looked=False) + _judge_life(run)


def _home(run: RunReadings, cell: str) -> str:
    """Describe what the receipt proves; non-finite numbers close no gate, and are always mentioned."""
    named = run.receipt.nonfinite if run.receipt else ()
    held = summary(entry for entry in named if str(entry.get("path", "")).startswith(f"{cell}/"))
    loads = run.receipt.loads if run.receipt else ()
    passed_over = summary_unread(unread(loads, cell))
    read = f"{passed_over} (receipt)" if passed_over else "loads (receipt)"
    return f"home, hash-equal, {read}{f'; holds {held}' if held else ''}"


def _judge_doubt(doubt: str, readings: TeardownReadings) -> Finding:
    if readings.facts_checked:
        return passes(f"not certain: {doubt}; looked at: {readings.facts_checked}")
    hint = f'look it up (console, platform page), then: lease down {readings.lease} --facts-checked "what you saw"'
    return refuses(f"not certain: {doubt}", hint)


def _all_proven(readings: TeardownReadings) -> bool:
    return all(set(run.promised) <= set(run.receipt.cells if run.receipt else ()) for run in readings.runs)


def _judge_cell(run: RunReadings, cell: str, covered: set[str]) -> Finding:
    if cell in covered:
        return passes(f"{run.run}/{cell}: {_home(run, cell)}")
    if cell in run.waived:
        if run.state == "absent" and cell not in run.missed:
            return judge_absent(run.run, cell)
        here = run.remains.get(cell) or run.present.get(cell, [])
        return judge_given_up(run.run, cell, run.given_up.get(cell, []), here)
    if run.state in ("failed", "stopped") and cell in run.bare:
        nothing = "left no file in its folders: there is nothing to give up"
        return passes(f"{run.run}/{cell}: the run {run.state} and {nothing}")
    if run.state in ("failed", "stopped"):
        hint = f"resume it with the identical lease run, or: lease waive {run.run} {cell}"
        hint += "; several failed ones in one act: lease waive --failed BOX" if run.state == "failed" else ""
        what = f"{run.run}/{cell}: the run {run.state} without a result, and no waiver"
        if cell in run.beside:
            what += f"; it wrote into its working folder ({one_line(run.beside[cell])}), which no pull brings home"
        return refuses(what, hint)
    return refuses(
        f"{run.run}/{cell}: no receipt and no waiver",
        f"lease pull {run.run}   (or: lease waive {run.run} {cell})",
    )


def _as_said(holds: bool, what: str) -> Finding:
    return judge(holds, what, otherwise=f"not so: {what}")
