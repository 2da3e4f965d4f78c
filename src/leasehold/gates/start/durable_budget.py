"""Check that the copy of the results fits on the durable tier: bytes and inodes, free and by the platform's cap. Pure.

The copy is made when training is done: missing room would then fail a run whose training completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.model.job.job import Job
from leasehold.model.platform.profile import Profile, Tier
from leasehold.model.run.verdict import Finding, passes, refuses, unknown
from leasehold.model.values.units import say_bytes

COPY = "durable copy"
_SPARE_BYTES = 64 << 20  # as the copier keeps free
_SPARE_INODES = 16
_INODES_A_PATTERN = 100  # a promise with a wildcard has no known file count
_WILD = "*?["


@dataclass(frozen=True)
class Room:
    """A tier's room of one kind: bytes or inodes."""

    what: str
    total: int  # 0: the filesystem does not count it
    free: int
    cap: int  # the platform's; 0: none is known

    @property
    def sure(self) -> int:
        """Return the room that is free whoever filled the rest: the filesystem may be larger than our share of it."""
        return min(self.free, max(0, self.cap - (self.total - self.free))) if self.cap else self.free

    @property
    def most(self) -> int:
        """Return the most that can be free."""
        return min(self.free, self.cap) if self.cap else self.free

    def say(self, count: int) -> str:
        """Format an amount of it."""
        return say_bytes(count) if self.what == "bytes" else f"{count:,} inodes"


def judge_durable(job: Job, profile: Profile, disks: Sequence[Mapping[str, Any]], cells: int) -> list[Finding]:
    """Compare what will be copied to the durable tier with the room there; empty where no copy is made."""
    tier = profile.durable_tier
    if tier is None or tier is profile.state_tier or not job.artifacts:
        return []
    disk = next((disk for disk in disks if disk["path"] == tier.path and disk.get("exists")), None)
    if disk is None or tier.own_mount and not disk["is_mount"]:
        return []  # nothing is copied there, which another check reports
    need, parts = _inodes(job, cells)
    return [_judge_bytes(job, tier, disk, cells), _judge(tier, room_of(tier, disk, "inodes"), need, parts)]


def judge_cap(tier: Tier, disk: Mapping[str, Any], need_bytes: int, need_inodes: int) -> list[Finding]:
    """Compare a run's need with the cap of the tier it lives on; its free room is judged elsewhere."""
    if not disk.get("exists"):
        return []
    needs = (("bytes", tier.cap_bytes, need_bytes), ("inodes", tier.cap_inodes, need_inodes))
    return [_judge(tier, room_of(tier, disk, what), need, "", name="run") for what, cap, need in needs if cap]


def room_of(tier: Tier, disk: Mapping[str, Any], what: str) -> Room:
    """Return the room of one kind."""
    cap = tier.cap_bytes if what == "bytes" else tier.cap_inodes
    return Room(what, int(disk[f"total_{what}"]), int(disk[f"free_{what}"]), cap)


def _judge_bytes(job: Job, tier: Tier, disk: Mapping[str, Any], cells: int) -> Finding:
    room, each = room_of(tier, disk, "bytes"), job.checkpoint.size_bytes
    if not each:
        hint = "say it in the job: checkpoint: {size: 3GB}"
        return unknown(f"{COPY}: its size is not known (no checkpoint.size); {_shown(tier, room)}", hint)
    return _judge(tier, room, each * cells + _SPARE_BYTES, f"{say_bytes(each)} checkpoint × {cells:,}")


def _inodes(job: Job, cells: int) -> tuple[int, str]:
    """Count each promised file and its folder, for every cell."""
    files = sum(_INODES_A_PATTERN if set(_WILD) & set(one.pattern) else 1 for one in job.artifacts)
    folders = 1 + sum(one.pattern.count("/") for one in job.artifacts)
    return cells * (files + folders) + _SPARE_INODES, f"{cells:,} × {files + folders:,} files and folders"


def _judge(tier: Tier, room: Room, need: int, parts: str, name: str = COPY) -> Finding:
    text = f"{name} {room.say(need)}{parts and f' ({parts})'} against {_shown(tier, room)}"
    hint = f"remove what is not needed below {tier.path}, enlarge it, or pack small files into an archive"
    if not room.total:
        if room.cap and need > room.cap:
            return refuses(text, hint)
        return unknown(f"{text}: how many are free is not known, {tier.path} does not count them")
    if need > room.most:
        return refuses(text, hint)
    if need > room.sure:
        return unknown(f"{text}: how much of that is used is not known, the disk itself is larger than that")
    return passes(text)


def _shown(tier: Tier, room: Room) -> str:
    cap = f", at most {room.say(room.cap)} by the platform's rule" if room.cap else ""
    free = f"{room.say(room.free)} free" if room.total else f"an uncounted number of {room.what}"
    return f"{free} on {tier.path} ({tier.name}{cap})"
