"""Clean a box's disks: survey, plan, quarantine first, delete after a person's typed yes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, Refusal, UserError
from leasehold.gates.care.disk_plan import Judged, class_of, judge_units, pick
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.ending.run_proof import why_kept
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.preflight.plan_inputs import profile_on
from leasehold.lifecycle.records.orders import DiskOrder
from leasehold.model.platform.profile import Profile
from leasehold.model.run.disk_unit import DiskUnit, quarantine_from, result_from, tier_from, trend_from, unit_from
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes

if TYPE_CHECKING:
    from leasehold.platforms.contract import MachineEngine


_MOST_TARGETS = 1000


@dataclass(frozen=True)
class DiskReport:
    """The survey of a box's disks, and what may be freed."""

    box: str
    tiers: tuple[dict[str, Any], ...]
    asked: tuple[dict[str, Any], ...]  # our folder and the profile's tiers, as the patrol reads them
    judged: tuple[Judged, ...]
    links: tuple[dict[str, str], ...]
    quarantines: tuple[dict[str, Any], ...]
    root: str
    unread_processes: int
    trends: tuple[dict[str, Any], ...] = ()  # when patrols expect a disk to be full
    picked: tuple[Judged, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Convert for --json."""
        return {
            "box": self.box,
            "root": self.root,
            "tiers": [{**tier, "titles": _titles(tier)} for tier in self.tiers],
            "asked": list(self.asked),
            "units": [item.as_dict() for item in self.judged],
            "picked": [item.unit.path for item in self.picked],
            "links": list(self.links),
            "trends": list(self.trends),
            "quarantines": list(self.quarantines),
            "targets_free_bytes": sum(item.unit.frees_bytes for item in self.judged if item.target),
            "complete": all(tier["complete"] for tier in self.tiers),
            "unread_processes": self.unread_processes,
        }


def survey(home: Home, order: DiskOrder, report: Report) -> DiskReport:
    """Survey the disks and plan; change nothing."""
    box = box_called(home, order.box)
    with box.connect() as engine:
        return _survey(home, box, engine, order, report)


def free(home: Home, order: DiskOrder, ask: Ask, report: Report) -> tuple[DiskReport, dict[str, Any]]:
    """Choose targets, show them, and quarantine (or delete) them after a person's typed yes."""
    box = box_called(home, order.box)
    with box.connect() as engine:
        seen = _survey(home, box, engine, order, report)
        if not seen.picked:
            raise Refusal("disk.nothing_to_free", f"nothing on {order.box} may go", hint=f"lease box disk {order.box}")
        report(Note("disk_picked", say_picked(seen, order), {"picked": [item.as_dict() for item in seen.picked]}))
        _have_typed(ask, _phrase(order, len(seen.picked)), _consequence(order))
        targets = [item.unit.as_target() for item in seen.picked]
        done = {**_done(engine.care.quarantine(targets, delete=order.delete)), "deleted": order.delete}
        kind = "disk_deleted" if order.delete else "disk_quarantined"
        home.ledger.append(kind, box=order.box, by=person(), **done)
        _note_runs(home, seen.picked, done)
        return seen, done


def undo(home: Home, box: str, stamp: str) -> dict[str, Any]:
    """Restore what a quarantine holds."""
    with box_called(home, box).connect() as engine:
        done = _done(engine.care.undo_quarantine(stamp))
    home.ledger.append("disk_restored", box=box, by=person(), **done)
    return done


def empty(home: Home, box: str, stamp: str, ask: Ask) -> dict[str, Any]:
    """Delete what a quarantine holds, after a person's typed yes."""
    _have_typed(ask, f"delete {stamp} on {box}", "everything in this quarantine will be deleted for ever")
    with box_called(home, box).connect() as engine:
        done = _done(engine.care.empty_quarantine(stamp))
    home.ledger.append("disk_emptied", box=box, by=person(), **done)
    return done


def _done(answers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Parse the result of each target, and the total at the end."""
    *rows, last = answers
    try:
        gained = {"free_bytes_gained": int(last["free_bytes_gained"])} if "free_bytes_gained" in last else {}
        return {"stamp": str(last["stamp"]), "results": [result_from(row) for row in rows], **gained}
    except (KeyError, TypeError, ValueError) as error:
        raise BoxError("disk.strange_answer", f"the box sent an unreadable result: {error!r}") from None


def _note_runs(home: Home, picked: Sequence[Judged], done: Mapping[str, Any]) -> None:
    """Record which runs left the box: the teardown gate must not take them for lost."""
    gone = {str(row["path"]) for row in done["results"] if row["done"]}
    for item in picked:
        if item.unit.kind == "ours.run" and item.unit.path in gone:
            record = books.find_run(home.ledger, item.unit.path.rsplit("/", 1)[-1])
            home.ledger.append("run_removed", lease=record.lease, run=record.run, stamp=done.get("stamp", ""))


def say_picked(seen: DiskReport, order: DiskOrder) -> str:
    """Report the exact targets, their sizes, why each is safe and what it costs to restore."""
    freed = sum(item.unit.frees_bytes for item in seen.picked)
    lines = []
    for item in seen.picked:
        unit = item.unit
        lines.append(f"{say_bytes(unit.frees_bytes):>10}  {unit.inodes:>9,} files  {unit.path}")
        lines.append(f"{'':>10}  {item.why}; to get it back: {item.cost}")
    many = f"{len(seen.picked)} target{'' if len(seen.picked) == 1 else 's'}"
    files = sum(item.unit.inodes for item in seen.picked)
    asked = say_bytes(order.free_bytes) if order.free_bytes else f"{order.free_inodes:,} files"
    head = f"{many} would free {say_bytes(freed)} and {files:,} files; asked for: {asked}"
    if freed < order.free_bytes:
        lines.append(f"{say_bytes(order.free_bytes - freed)} are still missing: ask for a disk larger by that")
    if files < order.free_inodes:
        lines.append(f"{order.free_inodes - files:,} files are still missing: pack small files into tar shards")
    return "\n".join([head, *lines])


def _survey(home: Home, box: Box, engine: MachineEngine, order: DiskOrder, report: Report) -> DiskReport:
    profile = profile_on(home, box)
    paths = [tier.path for tier in profile.tiers if tier.path.startswith("/")]
    units: list[DiskUnit] = []
    last: dict[str, Any] = {}
    try:
        for answer in engine.care.disk_survey(paths, _variables(profile), order.limit_s):
            if "units" in answer:
                units += [unit_from(item) for item in answer["units"]]
            elif "at" in answer:
                report(Note("disk_progress", f"{int(answer['entries']):,} files seen, at {answer['at']}", answer))
            else:
                last = answer
        judged = judge_units(units, float(last["now_unix"]), _proof(home, box, engine, last))
        return _report(order, last, judged)
    except (KeyError, TypeError, ValueError) as error:
        raise BoxError("disk.strange_answer", f"{box.name} sent an unreadable survey: {error!r}") from None


def _report(order: DiskOrder, last: Mapping[str, Any], judged: Sequence[Judged]) -> DiskReport:
    walked = [tier_from(item) for item in last["tiers"]]
    tiers = _on_one_disk(order.tier or str(last["root"]), walked)
    wanted = order.free_bytes or order.free_inodes
    picked = pick(judged, tiers, order.free_bytes, order.free_inodes)[:_MOST_TARGETS] if wanted else []
    return DiskReport(
        box=order.box,
        tiers=tuple(walked),
        asked=tuple(dict(item) for item in last["asked"]),
        judged=tuple(judged),
        links=tuple({str(key): str(value) for key, value in item.items()} for item in last["links"]),
        quarantines=tuple(quarantine_from(item) for item in last["quarantines"]),
        root=str(last["root"]),
        unread_processes=int(last["unread_processes"]),
        trends=tuple(trend_from(item) for item in last["trends"]),
        picked=tuple(picked),
    )


def _titles(tier: Mapping[str, Any]) -> dict[str, str]:
    return {str(kind): class_of(str(kind)).title for kind in tier["totals"]}


def _on_one_disk(path: str, tiers: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the surveyed places on the same filesystem as this path: freeing any of them frees that disk."""
    inside = [tier for tier in tiers if (path + "/").startswith(str(tier["real"]).rstrip("/") + "/")]
    if not inside:
        known = ", ".join(str(tier["real"]) for tier in tiers)
        raise UserError("disk.unknown_tier", f"{path} was not surveyed", hint=f"--tier with one of: {known}")
    mount = max(inside, key=lambda tier: len(str(tier["real"])))["mount"]
    return {str(tier["real"]) for tier in tiers if tier["mount"] == mount}


def _variables(profile: Profile) -> dict[str, str]:
    """Return where the platform puts caches: its variables with the tiers' folders filled in."""
    folders = {role: tier.path for tier in profile.tiers for role in tier.roles if tier.path.startswith("/")}
    found = {}
    for name, value in profile.environment.variables.items():
        for role, path in folders.items():
            value = value.replace("{" + role + "}", path)
        if value.startswith("/"):
            found[name] = value
    return found


def _proof(home: Home, box: Box, engine: MachineEngine, last: Mapping[str, Any]) -> Any:
    """Prove for each run on the box whether all of it is home; an unproven run stays."""
    records = {record.run: record for record in books.runs(home.ledger)}

    def proof(run: str) -> str:
        state = dict(last["runs"]).get(run)
        if state is None:
            return "it holds no plan, so its promises are unknown"
        if not state["terminal"] or state["caretaker"]:
            return f"the run is {state['state']}"
        if run not in records:
            return "this home does not know the run, so it cannot know whether it is home"
        return why_kept(home, engine, records[run])

    return proof


def _phrase(order: DiskOrder, count: int) -> str:
    return f"{'delete' if order.delete else 'quarantine'} {count} on {order.box}"


def _consequence(order: DiskOrder) -> str:
    if order.delete:
        return "these targets will be deleted for ever"
    return "these targets will be renamed into a quarantine on the box: that frees nothing yet, and can be undone"


def _have_typed(ask: Ask, phrase: str, consequence: str) -> None:
    require_phrase(ask, f"{consequence}. To approve", phrase)
