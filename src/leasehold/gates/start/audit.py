"""The audit gate: is this box fit for this job? Pure: measurements in, a verdict with evidence out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.model.job.job import GpuWish, Job
from leasehold.model.platform.placing import copy_tier
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Finding, Outcome, Verdict, judge, passes, refuses
from leasehold.model.values.units import say_bytes

from .card_company import judge_company, used_cards
from .card_health import judge_card_health
from .durable_budget import COPY, judge_cap, judge_durable
from .sharing import SharedReading, judge_sharing

WARN_FULL = 0.90
REFUSE_FULL = 0.95
_SHM_REFUSE_BYTES = 64 << 20
_SHM_WARN_BYTES = 1 << 30
_NOFILE_WARN = 1024
_LOG_AND_CACHE_BYTES = 1 << 30  # logs, tracker cache and the code itself
# Files and folders that our own work makes, counted on 2026-11-15 with 1 and 11 cells that do nothing (local, ssh,
# Slurm): 352 for a run of any size, 323 of them the parcel; for each cell 10 under one caretaker and 15 on Slurm,
# without its code and results; 5 for a further attempt, 4 for marks of set-up, gate and saving.
_INODES_A_RUN = 2000  # and what caches and a trainer's own logs add
_INODES_A_CELL = 48  # twice Slurm's use with a second attempt: a tracker keeps a few files too
_INODES_A_PATTERN = 100  # a promise with a wildcard has no known file count; 100 is a guess
_WILD = "*?["
_DETACH_TOOLS = {"tmux": "tmux", "systemd": "systemctl"}  # setsid needs no tool
_BUDGETS = ("disk budget", "inode budget", COPY)
_FULL = f" >= {REFUSE_FULL:.0%} used"


@dataclass(frozen=True)
class AuditReadings:
    """The measurements taken on the box."""

    disks: tuple[dict[str, Any], ...]  # the state tier first, then the profile's other tiers
    probes: dict[str, str]  # path -> the write error, or empty
    memory: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    shm: dict[str, Any] | None = None
    nofile: int = 0
    gpus: tuple[dict[str, Any], ...] = ()
    gpu_problem: str = ""
    gpu_health: Mapping[str, Any] | None = None  # one reading of their faults and of the kernel log
    tools: dict[str, Any] = field(default_factory=dict)
    shared: tuple[SharedReading, ...] = ()  # what a second box saw of shared tiers; empty when none was asked
    code_inodes: int = 0  # files and folders of the code: every cell has its own copy


def judge_audit(job: Job, profile: Profile, readings: AuditReadings, cells: int = 1) -> Verdict:
    """Check mounts, space, inodes, limits and cards against the job's constraint."""
    findings: list[Finding] = []
    optional = {tier.path: tier for tier in profile.tiers if tier.optional}
    for disk in readings.disks:
        absent = optional.get(str(disk["path"])) if not disk.get("exists") else None
        if absent is not None:
            findings.append(passes(f"{absent.path} ({absent.name}) is not attached; results come home without it"))
            continue
        findings += _judge_disk(disk, readings.probes.get(str(disk["path"])))
    findings += _judge_mounts(profile, readings.disks)
    findings += judge_apart(profile, readings.disks)
    if readings.disks:
        findings += _judge_budget(job, readings.disks[0], cells)
        inodes = inode_need(job, cells, readings.code_inodes)
        findings += _judge_inodes(readings.disks[0], inodes)
        findings += judge_cap(profile.state_tier, readings.disks[0], disk_need_bytes(job, cells), inodes.total)
        findings += judge_durable(job, profile, readings.disks[1:], cells)
    findings += _judge_limits(readings)
    findings += _judge_cards(job, readings)
    findings += judge_sharing(profile, readings.shared, readings.disks)
    findings.append(_detach_tool(profile, readings.tools))
    return Verdict("audit", tuple(findings))


def judge_cluster(answer: Mapping[str, Any]) -> Finding:
    """Judge Slurm's answer to a job with these requirements."""
    problem = str(answer.get("problem") or "")
    if problem:
        return refuses(f"Slurm would not take it: {problem}", "fix `slurm:` or resources.gpu in the job file")
    return passes(f"Slurm would take it: {answer.get('says')}")


def lacks_room(verdict: Verdict) -> bool:
    """Return whether bytes or inodes are what is missing."""
    refused = [finding.what for finding in verdict.against() if finding.outcome is Outcome.REFUSED]
    return any(what.startswith(_BUDGETS) or _FULL in what for what in refused)


def disk_need_bytes(job: Job, cells: int) -> int:
    """Return checkpoint × (cells + one being written) + the job's other declared need + logs."""
    return job.checkpoint.size_bytes * (cells + 1) + job.disk_bytes + _LOG_AND_CACHE_BYTES


@dataclass(frozen=True)
class InodeNeed:
    """Files and folders that a run may create: a fixed number, and a number for each cell."""

    cells: int
    a_cell: int
    a_run: int = _INODES_A_RUN

    @property
    def total(self) -> int:
        """Return the total for all cells."""
        return self.a_run + self.cells * self.a_cell

    def __str__(self) -> str:
        cells = "1 cell" if self.cells == 1 else f"{self.cells:,} cells"
        return f"{self.total:,} ({self.a_run:,} + {cells} × {self.a_cell:,})"


def inode_need(job: Job, cells: int, code_inodes: int = 0) -> InodeNeed:
    """Count a cell's own files, its copy of the code with bytecode, its promises and two checkpoints."""
    promised = sum(_INODES_A_PATTERN if set(_WILD) & set(one.pattern) else 1 for one in job.artifacts)
    checkpoints = 2 if job.checkpoint.path else 0
    return InodeNeed(cells, _INODES_A_CELL + 2 * code_inodes + promised + checkpoints)


def _judge_disk(disk: dict[str, Any], problem: str | None) -> list[Finding]:
    path = disk["path"]
    if not disk.get("exists"):
        return [refuses(f"{path} does not exist on the box", "is the volume attached? Is the profile the right one?")]
    findings = [_fullness(disk, "bytes"), _fullness(disk, "inodes")]
    if disk.get("read_only"):
        findings.append(refuses(f"{path} is mounted read-only ({disk['filesystem']} at {disk['mount']})"))
    elif problem is not None:
        findings.append(judge(not problem, f"{path}: {problem or 'a probe file was written, read back and deleted'}"))
    return findings


def _fullness(disk: dict[str, Any], what: str) -> Finding:
    total, free = int(disk.get(f"usable_{what}", disk[f"total_{what}"])), int(disk[f"free_{what}"])
    if not total:
        return passes(f"{disk['path']}: {disk['filesystem']} counts no {what}")
    used = 1 - free / total
    shown = say_bytes(free) if what == "bytes" else f"{free:,}"
    text = f"{disk['path']}: {shown} {'' if what == 'bytes' else 'inodes '}free, {used:.0%} used ({disk['filesystem']})"
    if used >= REFUSE_FULL:
        return refuses(f"{text}  [{what}{_FULL}]", "remove files, or choose another disk with --root")
    return passes(text + ("  (nearly full)" if used >= WARN_FULL else ""))


def _judge_mounts(profile: Profile, disks: tuple[dict[str, Any], ...]) -> list[Finding]:
    """Check the mounts: a tier whose mount is missing is just a folder on the system disk, and is lost with it."""
    findings = []
    by_path = {str(disk["path"]): disk for disk in disks}
    for tier in profile.tiers:
        disk = by_path.get(tier.path)
        if disk is None or not tier.path.startswith("/") or not tier.own_mount or not disk.get("exists"):
            continue
        how = "a mount of its own" if disk["is_mount"] else "NOT mounted"
        text = f"{tier.path} ({tier.name}) is {how}: {disk['filesystem']} at {disk['mount']}"
        findings.append(judge(bool(disk["is_mount"]), text, "attach the volume in the console, then try again"))
    return findings


def judge_apart(profile: Profile, disks: tuple[dict[str, Any], ...]) -> list[Finding]:
    """Check that a durable folder named by a person is on another file system than our own folder, the first disk."""
    tier = copy_tier(profile)
    disk = next((disk for disk in disks if tier and tier.stated and disk["path"] == tier.path), None)
    if tier is None or disk is None or not disk.get("exists") or not disks[0].get("exists"):
        return []
    where = f"{tier.path} ({tier.name}) is on {disk['filesystem']} at {disk['mount']}"
    if disk.get("device") == disks[0].get("device"):
        hint = "name a folder of another disk: lease box add NAME --replace --durable DIR"
        return [refuses(f"{where}, the same file system as our folder {disks[0]['path']}: no copy is made", hint)]
    return [passes(f"{where}, another file system than our folder's; that it outlives the box is your word")]


def _judge_budget(job: Job, disk: dict[str, Any], cells: int) -> list[Finding]:
    if not disk.get("exists"):
        return []
    need, free = disk_need_bytes(job, cells), int(disk["free_bytes"])
    each = job.checkpoint.size_bytes
    parts = f"{say_bytes(each)} checkpoint × {cells + 1} + " if each else ""
    parts += f"{say_bytes(job.disk_bytes)} asked for + " if job.disk_bytes else ""
    parts += f"{say_bytes(_LOG_AND_CACHE_BYTES)} for logs" + ("" if each else "; checkpoint size not given")
    text = f"disk budget {say_bytes(need)} ({parts}) against {say_bytes(free)} free on {disk['path']}"
    larger = f"ask for a disk {say_bytes(max(0, need - free))} larger; do not shrink the experiment"
    return [judge(need <= free, text, larger)]


def _judge_inodes(disk: dict[str, Any], need: InodeNeed) -> list[Finding]:
    if not disk.get("exists") or not disk["total_inodes"]:
        return []
    free = int(disk["free_inodes"])
    text = f"inode budget {need} against {free:,} free"
    return [judge(need.total <= free, text, "prune small files; inodes run out before bytes")]


def _judge_limits(readings: AuditReadings) -> list[Finding]:
    findings = []
    limit, used = readings.memory.get("limit_bytes"), readings.memory.get("used_bytes")
    if limit:
        free = f", {say_bytes(used)} used now" if used is not None else ""
        source = readings.memory.get("source", "")
        text = f"memory limit {say_bytes(limit)} ({source}{free})"
        nearly = used is not None and source != "machine" and used / limit > 0.9
        findings.append(judge(not nearly, text, "more than 90 % is taken: the kernel will kill the trainer"))
    quota, visible = readings.cpu.get("quota"), readings.cpu.get("visible")
    if visible:
        findings.append(
            passes(f"CPU: {f'{quota:.1f} by cgroup quota' if quota else f'{visible} cores'} (host shows {visible})")
        )
    if readings.shm is not None and readings.shm.get("exists"):
        size = int(readings.shm["total_bytes"])
        text = f"/dev/shm {say_bytes(size)}" + ("  (small for data loader workers)" if size < _SHM_WARN_BYTES else "")
        findings.append(
            judge(size > _SHM_REFUSE_BYTES, text, "data loader workers die here: use num_workers=0 or a larger shm")
        )
    if readings.nofile:
        text = f"open files limit {readings.nofile}" + ("  (low)" if readings.nofile < _NOFILE_WARN else "")
        findings.append(passes(text))
    return findings


def _judge_cards(job: Job, readings: AuditReadings) -> list[Finding]:
    wish, gpus, problem = job.gpu, readings.gpus, readings.gpu_problem
    if wish is None:
        names = ", ".join(str(card["name"]) for card in gpus)
        sick = judge_card_health((), readings.gpu_health) if gpus else []
        told = [finding for finding in sick if finding.what.startswith("GPU ")]
        return [passes(f"GPU: none asked for; {names or problem or 'none seen'}"), *told]
    if problem or not gpus:
        why = problem or "the driver lists no card"
        return [refuses(f"the job asks for a GPU, and there is none: {why}", "is this the right box? --on NAME")]
    fitting = [card for card in gpus if not _misfit(wish, card)]
    shown = "; ".join(f"{card['name']} {_memory(card)} driver {card['driver']}" for card in gpus)
    asked = _spell(wish)
    if len(fitting) >= wish.count:
        fit = passes(f"GPU: asked {asked}; seen {shown}")
        return [fit, *judge_company(job, fitting), *judge_card_health(used_cards(job, fitting), readings.gpu_health)]
    why = next((_misfit(wish, card) for card in gpus if _misfit(wish, card)), f"only {len(fitting)} fit")
    return [
        refuses(
            f"GPU: asked {asked}; seen {shown}: {why}", "rent what the job asks for, or change the job's constraint"
        )
    ]


def _misfit(wish: GpuWish, card: dict[str, Any]) -> str:
    if wish.name and wish.name.lower() not in str(card["name"]).lower():
        return f"{card['name']} is not a {wish.name}"
    memory = card["memory_total_bytes"]
    if wish.memory_min_bytes and memory is None:
        return f"{card['name']} does not report how much memory it has"
    if wish.memory_min_bytes and memory < wish.memory_min_bytes * 0.97:  # drivers reserve some memory
        return f"{card['name']} has {say_bytes(memory)}, less than {say_bytes(wish.memory_min_bytes)}"
    if wish.memory_max_bytes and memory is not None and memory > wish.memory_max_bytes * 1.03:
        return f"{card['name']} has {say_bytes(memory)}, more than {say_bytes(wish.memory_max_bytes)}"
    return ""


def _memory(card: dict[str, Any]) -> str:
    return "memory unknown" if card["memory_total_bytes"] is None else say_bytes(card["memory_total_bytes"])


def _spell(wish: GpuWish) -> str:
    memory = f" with {say_bytes(wish.memory_min_bytes)} or more" if wish.memory_min_bytes else ""
    return f"{wish.count} × {wish.name or 'any card'}{memory}"


def _detach_tool(profile: Profile, tools: dict[str, Any]) -> Finding:
    """Name the detach method that will be used; a second connection proves it after the launch."""
    there = [way for way in profile.detach if way not in _DETACH_TOOLS or tools.get(_DETACH_TOOLS[way])]
    missing = [way for way in profile.detach if way not in there]
    if not there:
        return refuses(f"nothing to detach the run with: {', '.join(missing)} missing", "install tmux on the box")
    way = f"systemd if lingering is on, else {', '.join(there[1:]) or 'nothing'}" if there[0] == "systemd" else there[0]
    lacks = f"; {', '.join(missing)} missing" if missing else ""
    return passes(f"the run will outlive this connection ({way}{lacks})")
