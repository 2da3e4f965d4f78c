"""Deletion plan for a box: what may go, in which order, why that is safe, what it costs to get back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.run.disk_unit import DiskUnit
from leasehold.model.values.wording import ago

YOUNG_S = 3600.0  # something may still be writing it
UNFINISHED_S = 86400.0  # an unfinished file that was not touched for a day
MANY_FILES = 100_000  # from here on tar shards are recommended


@dataclass(frozen=True)
class Class:
    """A class of units: what holds for all of them; without a rank none is ever proposed for deletion."""

    title: str
    rank: int | None = None  # lower is deleted first
    safe: str = ""
    cost: str = ""
    keep: str = ""


CLASSES: Mapping[str, Class] = {
    "trash": Class("trash", 0, "it is in the trash already", "nothing"),
    "core": Class("core dumps", 0, "what is left of a crashed process; a debugger alone reads it", "nothing"),
    "temp": Class("unfinished files", 0, "an unfinished write or download, untouched for a day", "the download again"),
    "cache.apt": Class("apt cache", keep="packages that are installed already; as root: apt-get clean"),
    "cache.pip": Class("pip cache", 1, "downloaded again when needed", "a download at the next install"),
    "cache.uv": Class("uv cache", 1, "downloaded again when needed", "a download at the next install"),
    "cache.npm": Class("npm cache", 1, "downloaded again when needed", "a download at the next install"),
    "cache.conda": Class("conda packages", 1, "installed environments keep their own names of it", "a download"),
    "cache.wandb": Class("wandb cache", 1, "artifacts are downloaded again when needed", "a download"),
    "cache.torch": Class("torch hub", 2, "downloaded again when needed", "a download of the weights"),
    "cache.huggingface": Class("Hugging Face cache", 2, "downloaded again when needed", "a download of its size"),
    "cache.modelscope": Class("ModelScope cache", 2, "downloaded again when needed", "a download of its size"),
    "ours.run": Class("runs", 3, "its results are home, hash-equal, and load (receipt)", "the home copy stays"),
    "checkpoint.old": Class(
        "superseded checkpoints", 4, "a newer one of the same series lies beside it", "training again up to that step"
    ),
    "checkpoint.best": Class("best checkpoints", keep="its name or its trainer calls it the best"),
    "checkpoint.last": Class("last checkpoints", keep="the newest of its series, or the only one"),
    "images": Class("image files", keep="samples or data? only you know; many small files are better as tar shards"),
    "dataset": Class("data sets", keep="training data; only you know whether it can be downloaded again"),
    "tensorboard": Class("TensorBoard logs", keep="evidence of runs"),
    "wandb": Class("wandb runs", keep="may not be synced yet: wandb sync --clean removes what is"),
    "environment": Class("environments", keep="installed programs; something may run from it"),
    "ours.data": Class("fetched data ($LEASE_DATA)", keep="jobs of this box read it"),
    "ours.inputs": Class("uploaded data (`data:` of jobs)", keep="lease box prune removes what no run uses"),
    "ours.trees": Class("our code", keep="lease box prune removes what no run uses"),
    "ours.parcels": Class("our caretaker", keep="it supervises the runs"),
    "ours.quarantine": Class("quarantine", keep="lease box disk BOX --empty-quarantine STAMP deletes it"),
    "ours.other": Class("our other files", keep="leasehold uses it"),
    "folder": Class("other folders", keep="its class is unknown"),
}
_UNKNOWN = Class("of an unknown class", keep="its class is unknown")
Proof = Callable[[str], str]  # a run's name -> why it must stay; empty when its results are home


@dataclass(frozen=True)
class Judged:
    """A unit with the reason why it may be deleted or must stay."""

    unit: DiskUnit
    target: bool
    why: str
    cost: str = ""
    rank: int = 99

    def as_dict(self) -> dict[str, object]:
        """Return the fields for --json."""
        unit = self.unit
        return {
            "path": unit.path, "class": unit.kind, "title": class_of(unit.kind).title, "tier": unit.tier,
            "bytes": unit.bytes, "frees_bytes": unit.frees_bytes, "inodes": unit.inodes,
            "newest_unix": unit.newest_unix,
            "target": self.target, "why": self.why, "cost": self.cost, "many_files": unit.inodes > MANY_FILES,
            "held": not self.target and class_of(unit.kind).rank is not None,
        }  # fmt: skip


def class_of(kind: str) -> Class:
    """Return what holds for a class; a class that only a newer box knows is never deleted."""
    return CLASSES.get(kind, _UNKNOWN)


def judge_units(units: Iterable[DiskUnit], now_unix: float, proof: Proof) -> list[Judged]:
    """Judge whether each unit may be deleted; targets come first, in deletion order."""
    judged = [_judge(unit, now_unix, proof) for unit in units]
    return sorted(judged, key=lambda item: (not item.target, item.rank, -item.unit.frees_bytes))


def pick(judged: Sequence[Judged], tiers: set[str], want_bytes: int, want_inodes: int = 0) -> list[Judged]:
    """Take the cheapest targets of these tiers until they suffice, or all of them if they do not."""
    chosen: list[Judged] = []
    freed = inodes = 0
    for item in judged:
        if not item.target or item.unit.tier not in tiers:
            continue
        if freed >= want_bytes and inodes >= want_inodes:
            break
        chosen.append(item)
        freed += item.unit.frees_bytes
        inodes += item.unit.inodes
    return chosen


def _judge(unit: DiskUnit, now_unix: float, proof: Proof) -> Judged:
    kind = class_of(unit.kind)
    if kind.rank is None:
        return Judged(unit, False, kind.keep)
    reason = _held(unit, now_unix) or (proof(unit.path.rsplit("/", 1)[-1]) if unit.kind == "ours.run" else "")
    if reason:
        return Judged(unit, False, reason)
    return Judged(unit, True, kind.safe, kind.cost, kind.rank)


def _held(unit: DiskUnit, now_unix: float) -> str:
    """Return what protects a unit that its class alone would release."""
    if unit.open_by:
        return f"pid {', '.join(map(str, unit.open_by[:5]))} has it open"
    if unit.foreign:
        return f"{unit.foreign} files in it belong to other users"
    if unit.divided:
        return "its parts are judged one by one"
    if unit.partial:
        return "the time ran out in the middle of it"
    if not unit.frees_bytes and unit.bytes:
        return "every file in it has another name elsewhere: deleting it frees nothing"
    if not unit.bytes:
        return "it is empty"
    if unit.kind == "ours.run":
        return ""  # its receipt proves more than its age
    age_s, least_s = now_unix - unit.newest_unix, UNFINISHED_S if unit.kind == "temp" else YOUNG_S
    return f"it was written {ago(age_s)} ago; {ago(least_s)} is the least" if age_s < least_s else ""
