"""Run the gates before a launch: measure, judge, record, and refuse unless a person gave a reason to skip."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import Refusal, UserError
from leasehold.gates.start.audit import AuditReadings, judge_audit, judge_cluster, lacks_room
from leasehold.gates.start.environment import judge_credentials, judge_environment, wanted_modules
from leasehold.gates.start.platform_signs import SignReadings, judge_signs
from leasehold.kit.events.gate_lines import gate_line
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.tables.trackers import tracker_of
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.box.shared_disk import Company, probe_sharing
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.lifecycle.project.framework_imports import imported, own_packages
from leasehold.model.job.job import Job
from leasehold.model.job.slurm_options import slurm_options
from leasehold.model.platform.platform_signs import asked_of_box
from leasehold.model.platform.profile import Profile
from leasehold.model.run.note import Note, Report
from leasehold.model.run.verdict import Outcome, Verdict
from leasehold.model.values.units import say_bytes

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


SKIPPABLE = ("audit", "env", "smoke", "launch")
_HOGS_LIMIT_S = 10.0
NoteDisks = Callable[[list[dict[str, Any]]], None]
_PLAIN: Mapping[str, Any] = {}  # a platform that requires nothing of its shells
_HALF_FULL = 0.5
_OWN_FOLDERS = ("active", "bin", "blobs", "box-id", "caretaker", "data", "python", "quarantine", "secrets", "trees")


@dataclass(frozen=True)
class Skips:
    """Gates that a person chose to skip, and the reason."""

    names: tuple[str, ...] = ()
    because: str = ""

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in SKIPPABLE:
                hint = f"these can be skipped: {', '.join(SKIPPABLE)}; gates that protect data cannot"
                raise UserError("gate.unskippable", f"the gate {name!r} cannot be skipped", hint=hint)
        if self.names and not self.because.strip():
            raise UserError("gate.no_reason", "a skipped gate needs a reason", hint="--skip-gate NAME --because 'why'")


@dataclass(frozen=True)
class Gatekeeper:
    """Judges, records and refuses, for one run on one lease."""

    ledger: Ledger
    report: Report
    lease: str = ""
    run: str = ""
    skips: Skips = field(default_factory=Skips)

    def pass_through(self, verdict: Verdict) -> None:
        """Record a verdict; raise Refusal when it blocks and was not skipped."""
        skipped = verdict.gate in self.skips.names
        self.record(verdict, skipped)
        if verdict.outcome is not Outcome.REFUSED or skipped:
            if skipped and not verdict.passed:
                self.report(Note("warning", f"gate {verdict.gate} was skipped because: {self.skips.because}"))
            return
        alone = "plan" if verdict.gate == "plan" else f"check {verdict.gate}"
        seen, hint = verdict.objections(f"lease {alone} shows all it read")
        message = f"the {verdict.gate} gate refused; nothing was launched"
        raise Refusal(f"{verdict.gate}.refused", message, seen=seen, hint=hint)

    def record(self, verdict: Verdict, skipped: bool = False) -> None:
        """Write a verdict to the ledger and report it."""
        why = {"because": self.skips.because} if skipped else {}
        self.ledger.append("gate_judged", lease=self.lease, run=self.run, skipped=skipped, **why, **verdict.as_dict())
        self.report(Note("gate", _line(verdict, skipped), verdict.as_dict()))
        for finding in verdict.warnings():
            self.report(Note("warning", f"{finding.what}\n      -> {finding.hint}"))


@dataclass(frozen=True)
class AuditWish:
    """Further subjects of an audit, beside the box and the job."""

    deep: bool = False  # also list what fills the disks when space is sufficient
    with_whom: Company | None = None
    note_disks: NoteDisks | None = None
    code_inodes: int = 0
    signs: SignReadings | None = None  # of platforms; the box supplies those that its address cannot show


_JUST_THE_BOX = AuditWish()


def audit(
    engine: Engine, job: Job, profile: Profile, wish: AuditWish = _JUST_THE_BOX
) -> tuple[Verdict, list[dict[str, Any]]]:
    """Measure the box and judge it; list the largest disk users when space is short, or on request."""
    root = str(engine.box.probe()["root"])
    paths = [
        root,
        *(tier.path for tier in profile.tiers if tier.path.startswith("/") and tier.path != "/"),
    ]
    asked = asked_of_box(wish.signs.platforms) if wish.signs else []
    taken = engine.box.readings(paths, asked)
    if wish.note_disks is not None:
        wish.note_disks(taken["disks"])
    probes = {path: engine.box.probe_tier(path) for path in paths if _exists(taken, path)}
    shared = probe_sharing(engine, wish.with_whom, profile) if wish.with_whom else ()
    readings = replace(_readings(taken, probes), shared=shared, code_inodes=wish.code_inodes)
    verdict = judge_audit(met_here(job, profile), profile, readings, max(1, len(job.cells)))
    if wish.signs:
        seen = replace(wish.signs, read={**wish.signs.read, **_signs(taken)})
        verdict = Verdict(verdict.gate, (*verdict.findings, *judge_signs(profile, seen)))
    if profile.engine == "slurm":
        answer = engine.checks.scheduler(slurm_options(job))
        verdict = Verdict(verdict.gate, (*verdict.findings, judge_cluster(answer)))
    disks = [disk for disk in taken["disks"] if disk.get("exists")]
    if wish.deep:
        return verdict, [engine.box.hogs(disk["path"], _HOGS_LIMIT_S) for disk in disks]
    return verdict, _culprits(engine, disks, root) if lacks_room(verdict) else []


def _signs(taken: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(str(one["kind"]), str(one["value"])): str(one["seen"]) for one in taken.get("signs") or []}


def met_here(job: Job, profile: Profile) -> Job:
    """Return the part of the job that the reached machine must meet: a login node has no GPUs and runs no cells."""
    return replace(job, gpu=None) if profile.engine == "slurm" else job


def _culprits(engine: Engine, disks: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    """Find what fills the disks that are more than half full, and the one our folder is on; never our own folder."""
    found: list[dict[str, Any]] = []
    for disk in disks:
        used = 1 - disk["free_bytes"] / disk["total_bytes"] if disk["total_bytes"] else 0.0
        if disk["path"] != root and used < _HALF_FULL:
            continue
        above = disk["path"] != root or disk["is_mount"]  # otherwise check its neighbours
        place = disk["path"] if above else os.path.dirname(str(disk["real"]))
        looked = engine.box.hogs(place, _HOGS_LIMIT_S)
        others = [hog for hog in looked["hogs"] if not _ours(str(hog["real"] or hog["path"]), root, disk)]
        if others and looked["path"] not in [before["path"] for before in found]:
            found.append({**looked, "hogs": others})
    return found


def _ours(path: str, root: str, disk: dict[str, Any]) -> bool:
    """Return whether a path is our folder on the box or one of the few that we make in it."""
    homes = {root, str(disk["real"])} if disk["path"] == root else {root}
    return path in homes or any(path == f"{home}/{name}" for home in homes for name in _OWN_FOLDERS)


def environment(engine: Engine, job: Job, tree: CodeTree, platform: Mapping[str, Any] = _PLAIN) -> Verdict:
    """Ask the interpreter that will be launched what it can import and see."""
    wanted = wanted_modules(imported(tree, job.run))
    answer = engine.checks.environment(job.run, job.env, wanted, platform)
    return judge_environment(job, wanted, answer)


def credentials(engine: Engine, job: Job, values: Mapping[str, str], platform: Mapping[str, Any] = _PLAIN) -> Verdict:
    """Have the box check the tracker keys; the values go over the connection into a header, and nowhere else."""
    known = {name: value for name, value in values.items() if tracker_of(name) is not None}
    if not known:
        return Verdict("env", ())
    asked = engine.checks.secrets(known, job.env, platform)
    return judge_credentials(asked["answers"])


def gate_wishes(job: Job, tree: CodeTree, skips: Skips) -> dict[str, Any]:
    """Return what the box must check after set-up, when nobody at home may be there to ask."""
    elsewhere = job.slurm.get("image")  # the image has its own interpreter
    own = [] if elsewhere else own_packages(tree, job.run)
    wishes = {"modules": list(wanted_modules(imported(tree, job.run))), "skip": "env" in skips.names}
    return {**wishes, "own": own} if own else wishes


def needs_environment(job: Job, tree: CodeTree) -> bool:
    """Return whether there is anything to check before launch: a framework or a GPU. After `setup`, the box checks."""
    elsewhere = job.slurm.get("image") or job.slurm.get("modules")  # its interpreter is not the login node's
    return not job.setup and not elsewhere and bool(job.gpu or wanted_modules(imported(tree, job.run)))


def passed_before(ledger: Ledger, lease: str, key: str) -> bool:
    """Return whether this lease's interpreter already passed for the same command, imports and platform."""
    return any(event.data.get("key") == key for event in ledger.events(lease=lease, kind="env_passed"))


def environment_key(job: Job, tree: CodeTree, platform: Mapping[str, Any] = _PLAIN) -> str:
    """Return the key of what the environment gate depends on."""
    wanted = list(wanted_modules(imported(tree, job.run)))
    starter = re.split(r"\S+\.py\b", job.run)[0]  # the words before the script choose the interpreter
    return digest(
        {
            "run": starter,
            "env": dict(job.env),
            "modules": wanted,
            "gpu": job.gpu is not None,
            "platform": dict(platform),
        }
    )


def say_hogs(found: dict[str, Any]) -> str:
    """Format what fills a disk."""
    lines = [f"biggest below {found['path']}" + ("" if found["complete"] else " (time ran out)") + ":"]
    for hog in found["hogs"]:
        link = f" -> {hog['real']}" if hog["real"] else ""
        lines.append(f"  {say_bytes(hog['bytes']):>10}  {hog['files']:>9,} files  {hog['path']}{link}")
    return "\n".join(lines)


def _readings(taken: dict[str, Any], probes: dict[str, str]) -> AuditReadings:
    return AuditReadings(
        disks=tuple(taken["disks"]),
        probes=probes,
        memory=taken["memory"],
        cpu=taken["cpu"],
        shm=taken["shm"],
        nofile=int(taken["nofile"]),
        gpus=tuple(taken["gpus"]),
        gpu_problem=str(taken["gpu_problem"]),
        gpu_health=taken.get("gpu_health"),
        tools=taken["tools"],
    )


def _exists(taken: dict[str, Any], path: str) -> bool:
    return any(disk["path"] == path and disk.get("exists") for disk in taken["disks"])


def _line(verdict: Verdict, skipped: bool) -> str:
    if verdict.passed:
        return gate_line(verdict.gate, verdict.outcome.value, len(verdict.findings))
    unseen = "; ".join(finding.what for finding in verdict.against()) if verdict.outcome is Outcome.UNKNOWN else ""
    return gate_line(verdict.gate, verdict.outcome.value, 0, f"{', skipped' * skipped}{unseen and f': {unseen}'}")
