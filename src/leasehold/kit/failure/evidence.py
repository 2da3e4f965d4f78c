"""The evidence for a finding: lines, and facts from outside the log. Everything may be unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class Evidence:
    """Evidence for a finding: a line of a log, an exit code, a state, a reading."""

    source: str  # the log's name, or: exit code, state, reading
    text: str
    line: int = 0
    offset: int = 0
    count: int = 1
    rank: Optional[int] = None

    def as_dict(self) -> Dict[str, Any]:
        """Return the JSON form for --json."""
        value: Dict[str, Any] = {"source": self.source, "text": self.text, "count": self.count}
        if self.line:
            value.update(line=self.line, offset=self.offset)
        if self.rank is not None:
            value["rank"] = self.rank
        return value


@dataclass(frozen=True)
class Context:
    """Facts about the run; an absent one is None or empty, and decides nothing."""

    platform: str = ""
    exit_code: Optional[int] = None
    states: Tuple[str, ...] = ()  # scheduler or platform states and events, as they were written
    inodes_used: Optional[float] = None  # share of the inodes of the run's disk, 0 to 1
    disk_used: Optional[float] = None
    overlay_used: Optional[float] = None  # of /, where the run's data lies on another mount
    oom_kills: Optional[int] = None  # how many the kernel killed here during the run
    vram_used_before: Optional[float] = None  # share of the card's memory in use before the run
    own_kill: bool = False  # we ended it ourselves
    uptime_s: Optional[float] = None
    age_s: Optional[float] = None  # of the run
    values: Dict[str, str] = field(default_factory=dict)  # paths and numbers of this run, for commands

    @property
    def family(self) -> str:
        """Return the platform without its variant: runpod-volume fails as runpod does."""
        return self.platform.partition("-")[0]

    @property
    def rebooted(self) -> bool:
        """Return whether the box started after the run did."""
        return self.uptime_s is not None and self.age_s is not None and self.uptime_s < self.age_s


def from_readings(taken: Dict[str, Any], **known: Any) -> Context:
    """Build the context from the caretaker's readings; what was not read stays unknown."""
    disks = [disk for disk in taken.get("disks") or [] if disk.get("total_bytes")]
    work = disks[0] if disks else {}
    root: Dict[str, Any] = next((disk for disk in disks if disk.get("mount") == "/" and disk is not work), {})
    gpus = taken.get("gpus") or []
    used = [card["memory_used_bytes"] / card["memory_total_bytes"] for card in gpus if card.get("memory_total_bytes")]
    return Context(
        inodes_used=_used(work, "inodes"),
        disk_used=_used(work, "bytes"),
        overlay_used=_used(root, "bytes"),
        vram_used_before=known.pop("vram_used_before", max(used) if used and not known.get("running") else None),
        **{key: value for key, value in known.items() if key != "running"},
    )


def _used(disk: Dict[str, Any], what: str) -> Optional[float]:
    total, free = disk.get(f"total_{what}"), disk.get(f"free_{what}")
    return 1 - free / total if total and free is not None else None
