"""Read the numbers of a CUDA out-of-memory line, classify the case, and choose the next remedy to try."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"([\d.]{1,12}) (bytes|KiB|MiB|GiB|TiB)"
_FIELDS = {
    "requested": (rf"Tried to allocate {_SIZE}",),
    "total": (rf"{_SIZE} total capacity", rf"total capaci?ty of {_SIZE}"),
    "free": (rf"of which {_SIZE} is free", rf"; {_SIZE} free"),
    "allocated": (rf"{_SIZE} already allocated", rf"allocated memory {_SIZE} is allocated by PyTorch"),
    "reserved": (rf"{_SIZE} reserved in total by PyTorch", rf"{_SIZE} cached\)"),
    "unallocated": (rf"and {_SIZE} is reserved by PyTorch but unallocated",),
    "in_use": (rf"this process has {_SIZE} memory in use",),
}
_LARGE_GAP = 2 << 30
_SMALL_REQUEST = 512 << 20


@dataclass(frozen=True)
class OutOfMemory:
    """The numbers of one line, in bytes; None if missing."""

    requested: Optional[int] = None
    total: Optional[int] = None
    free: Optional[int] = None
    allocated: Optional[int] = None
    reserved: Optional[int] = None
    in_use: Optional[int] = None

    @property
    def gap(self) -> Optional[int]:
        """Return what the allocator holds but does not use."""
        if self.reserved is None or self.allocated is None:
            return None
        return max(0, self.reserved - self.allocated)

    @property
    def others(self) -> Optional[int]:
        """Return what other processes hold on the card."""
        mine = self.in_use if self.in_use is not None else self.reserved
        if None in (self.total, self.free) or mine is None:
            return None
        return max(0, (self.total or 0) - (self.free or 0) - mine)

    @property
    def case(self) -> str:
        """Return which case the numbers show: big request, fragmentation, neighbour, or plain."""
        if self.requested is None or not self.total:
            return "plain"
        if self.requested > self.total / 2:
            return "big request"
        if self.gap is not None and (
            (self.gap > _LARGE_GAP and self.requested < _SMALL_REQUEST)
            or (self.gap >= self.requested and self.gap > self.total / 10)
        ):
            return "fragmentation"
        if self.others is not None and self.others > self.total / 2:
            return "neighbour"
        return "plain"

    def as_dict(self) -> Dict[str, Any]:
        """Return the JSON form for --json, with the conclusions from the numbers."""
        known = {f"{name}_bytes": value for name, value in vars(self).items() if value is not None}
        extra = {"gap_bytes": self.gap, "others_bytes": self.others}
        return {**known, **{key: value for key, value in extra.items() if value is not None}, "case": self.case}


def parse(line: str) -> Optional[OutOfMemory]:
    """Read a line's numbers; None if it is not such a line."""
    if "out of memory" not in line and "OutOfMemory" not in line:
        return None
    found = {name: _size(patterns, line) for name, patterns in _FIELDS.items()}
    unallocated = found.pop("unallocated")
    if found["reserved"] is None and found["allocated"] is not None and unallocated is not None:
        found["reserved"] = found["allocated"] + unallocated
    return OutOfMemory(**found) if any(value is not None for value in found.values()) else None


def rung(entry: str, numbers: Optional[OutOfMemory]) -> str:
    """Return the remedy number for this case; remedies are numbered cheapest first."""
    case = numbers.case if numbers else "plain"
    if entry == "U11" or case == "neighbour":
        return "rung 0: free the card or take another; do not change the model"
    if entry == "M8" or case == "fragmentation":
        return "rung 4: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; the same batch may fit"
    if entry == "M2" or case == "big request":
        return "rung 5: fused attention or a shorter input; one tensor asks for more than half the card"
    if entry == "M17":
        return "rung 7: an 8-bit or paged optimizer (or foreach=False), then rung 8: shard its state"
    if entry == "M15":
        return "rung 1, for evaluation: a smaller evaluation batch, predictions to the CPU every few steps"
    if entry in ("D15", "C5"):
        return "not the model's size: save sharded, or gather on rank 0 with CPU offload"
    if entry == "M14":
        return "rung 1: half the micro-batch, twice the accumulation; then rung 3: activation checkpointing"
    return "rung 1: half the micro-batch, twice the accumulation; then bf16, activation checkpointing"


def _size(patterns: Tuple[str, ...], line: str) -> Optional[int]:
    for pattern in patterns:
        found = re.search(pattern, line)
        if found:
            return int(float(found.group(1)) * _UNITS[found.group(2)])
    return None
