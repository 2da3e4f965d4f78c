"""A reader's result, its error, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Iterable, List, Optional, Tuple

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class Unreadable(Exception):
    """The file does not load; `reason` describes what was found."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Limits:
    """Bounds on memory and time that hold whatever the file claims.

    The defaults are several times what the largest checkpoints in use need (a 200,000-tensor file fits)
    and keep a hostile file below about 1 GiB of memory.
    """

    max_header_bytes: int = 32 * _MIB  # safetensors header
    max_npy_header_bytes: int = 64 * 1024
    max_pickle_bytes: int = 256 * _MIB
    max_pickle_ops: int = 8_000_000
    max_memo: int = 4_000_000  # entries, and the highest index an opcode may name
    max_json_depth: int = 128
    max_line_bytes: int = 8 * _MIB  # a jsonl line, a csv row, one json string
    max_zip_entries: int = 500_000
    max_zip_directory_bytes: int = 128 * _MIB
    max_inflated_bytes: int = 64 * _GIB
    max_inflate_ratio: int = 200
    ratio_free_bytes: int = _GIB  # an array of zeros deflates 1000:1 and is not a bomb at this size
    max_items: int = 1_000_000  # tensors a header may name
    max_dcp_parts: int = 200_000
    max_keys: int = 10_000
    max_key_chars: int = 256
    max_opaque: int = 1_000


DEFAULT_LIMITS = Limits()


def limits_within(memory_bytes: int, file_bytes: int) -> Limits:
    """Return the limits for a reader whose memory and processor time the kernel bounds.

    They grow with both: a pickle has no more operations than bytes, and what fits the memory may be read.
    """
    base, share = DEFAULT_LIMITS, max(1.0, memory_bytes / _GIB)
    return replace(
        base,
        max_header_bytes=int(base.max_header_bytes * share),
        max_pickle_bytes=int(base.max_pickle_bytes * share),
        max_pickle_ops=max(base.max_pickle_ops, file_bytes),
        max_memo=max(base.max_memo, min(file_bytes, memory_bytes // 64)),
        max_line_bytes=int(8 * base.max_line_bytes * share),
        max_items=int(base.max_items * share),
        max_dcp_parts=int(base.max_dcp_parts * share),
    )


@dataclass(frozen=True)
class Numbers:
    """A file's floating-point numbers: how many are not finite, and the first keys, columns or tensors with some."""

    nan: int = 0
    inf: int = 0
    where: Tuple[Tuple[str, int], ...] = ()
    more: int = 0  # further names, counted up to a bound
    unread: str = ""  # what was not examined, if that is only a part of the file

    @property
    def bad(self) -> int:
        """Return how many are not finite."""
        return self.nan + self.inf

    def as_dict(self) -> Dict[str, object]:
        """Return it as plain JSON values."""
        where = [[name, count] for name, count in self.where]
        return {"nan": self.nan, "inf": self.inf, "where": where, "more": self.more, "unread": self.unread}


@dataclass(frozen=True)
class Reading:
    """The contents found in a file that loads."""

    kind: str
    bytes: int
    tensors: int = 0
    numel: int = 0
    keys: Tuple[str, ...] = ()
    opaque: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    numbers: Optional[Numbers] = None  # None: not examined

    def as_dict(self) -> Dict[str, object]:
        """Return the reading as plain JSON values."""
        return {
            "kind": self.kind,
            "bytes": self.bytes,
            "tensors": self.tensors,
            "numel": self.numel,
            "keys": list(self.keys),
            "opaque": list(self.opaque),
            "notes": list(self.notes),
            "numbers": self.numbers.as_dict() if self.numbers else None,
        }


class NumberTally:
    """Counts numbers that are not finite by the name of their container; memory is bounded."""

    MOST_SHOWN = 8
    _MOST_NAMES = 1000

    def __init__(self) -> None:
        self.nan = self.inf = 0
        self.unread = ""
        self._names: Dict[str, int] = {}

    def add(self, name: str, nan: int, inf: int) -> None:
        """Add the counts of one key, column or tensor."""
        if not nan and not inf:
            return
        self.nan += nan
        self.inf += inf
        shown = legible(name)
        if shown in self._names or len(self._names) < self._MOST_NAMES:
            self._names[shown] = self._names.get(shown, 0) + nan + inf

    def numbers(self) -> Numbers:
        """Return what was counted."""
        where = tuple(self._names.items())[: self.MOST_SHOWN]
        return Numbers(self.nan, self.inf, where, len(self._names) - len(where), self.unread)


class KeyList:
    """Collects distinct key names in order of appearance, never more than the limits allow."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: Dict[str, None] = {}
        self._dropped = False

    def add(self, key: str) -> None:
        if key in self._seen:  # most keys of most files, unchanged
            return
        shown = legible(key, self._limits.max_key_chars)
        if shown in self._seen:
            return
        if len(self._seen) >= self._limits.max_keys:
            self._dropped = True
            return
        self._seen[shown] = None

    def extend(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

    def names(self) -> Tuple[str, ...]:
        return tuple(self._seen)

    def notes(self) -> List[str]:
        if not self._dropped:
            return []
        return [f"only the first {self._limits.max_keys} top-level keys are listed"]


def legible(text: str, max_chars: int = 120) -> str:
    """Return text from the file safe for a terminal and a receipt: printable, bounded."""
    shown = text[:max_chars]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(text) <= max_chars else shown + "..."
