"""Combine the verdict on the vanished process, the log's suspects and the disk into one class of failure.

Pure, and used where the log is: the box decides by it, and `lease doctor` shows the same (docs/monitoring.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import who_killed_it
from .classes import BUG, DISK_FULL, HARDWARE, PREEMPTED, PROBABILISTIC, TRANSPORT, UNKNOWN, WALLTIME
from .who_killed_it import Verdict

if TYPE_CHECKING:  # it loads dataclasses and inspect, 2 MB, and the caretaker only needs the names of the classes
    from .precedence import Candidate

_HARDWARE_TIER = 1
_FALLBACK_TIER = 9
_WALLTIME_SIGNS = ("SL1",)
_OF_CATALOGUE = {
    "probabilistic": PROBABILISTIC,
    "disk-full": DISK_FULL,
    "bug": BUG,
    "hardware": HARDWARE,
    "transport": TRANSPORT,
    "clock": PREEMPTED,
}
_OF_VERDICT = {
    who_killed_it.REBOOT: PREEMPTED,
    who_killed_it.PREEMPTED: PREEMPTED,
    who_killed_it.WALLTIME: WALLTIME,
    who_killed_it.OOM: BUG,  # the same run would exhaust the memory again
    who_killed_it.HANGUP: PROBABILISTIC,
    who_killed_it.KILLED: PROBABILISTIC,
    who_killed_it.STALLED: PROBABILISTIC,
    who_killed_it.DIVERGED: BUG,  # the same weights and data give the same NaN
}
_SAYS = {
    who_killed_it.REBOOT: "the box restarted while it ran",
    who_killed_it.PREEMPTED: "the platform took the box away",
    who_killed_it.WALLTIME: "a time limit of the platform ended it",
    who_killed_it.OOM: "the kernel killed it for memory: the same run needs more than this box has",
    who_killed_it.HANGUP: "SIGHUP ended it: its terminal or connection closed",
    who_killed_it.STALLED: "it stalled",
    who_killed_it.DIVERGED: "its loss was not finite, and its job says on_nan: stop",
    who_killed_it.KILLED: "it was killed from outside",
    who_killed_it.CRASHED: "it crashed, and its log shows no known error",
    who_killed_it.EXITED: "it exited with an error code, and its log shows no known error",
    who_killed_it.UNKNOWN: "it vanished, and the cause is unknown",
}
_FIRST = (
    who_killed_it.REBOOT,
    who_killed_it.OOM,
    who_killed_it.PREEMPTED,
    who_killed_it.WALLTIME,
    who_killed_it.STALLED,
)
_OUTSIDE = (
    who_killed_it.REBOOT,
    who_killed_it.OOM,
    who_killed_it.PREEMPTED,
    who_killed_it.WALLTIME,
    who_killed_it.HANGUP,
    who_killed_it.KILLED,
    who_killed_it.UNKNOWN,
)


class DiskNow(NamedTuple):
    """The run's disk right after the end; None is unknown."""

    free_bytes: Optional[int] = None
    free_inodes: Optional[int] = None  # None also where the filesystem has no limit

    @property
    def full(self) -> str:
        """Return what ran out, if anything did."""
        if self.free_bytes is not None and self.free_bytes < _FULL_BYTES:
            return "the disk has %d kB left" % (self.free_bytes >> 10)
        if self.free_inodes is not None and self.free_inodes < _FULL_INODES:
            return "the disk has %d inodes left" % self.free_inodes
        return ""


_FULL_BYTES = 1 << 20
_FULL_INODES = 4


class Classed(NamedTuple):
    """One class, the reason, and the lines that support it."""

    klass: str
    verdict: str  # the verdict of who_killed_it
    signs: Tuple[str, ...]  # catalogue ids, most significant first
    why: str
    evidence: Tuple[str, ...]

    @property
    def sign(self) -> str:
        """Return what identifies a repeated failure; empty if the run was ended from outside."""
        if self.signs:
            return self.signs[0]
        return "" if self.verdict in _OUTSIDE else self.verdict

    def as_event(self) -> Dict[str, Any]:
        """Return the fields for the journal."""
        return {
            "class": self.klass,
            "verdict": self.verdict,
            "signs": list(self.signs),
            "why": self.why,
            "evidence": list(self.evidence),
        }


def classify(verdict: Verdict, suspects: Sequence[Candidate], disk: DiskNow, broken: Sequence[str] = ()) -> Classed:
    """Decide by the evidence nearest to the hardware: the card, kernel and platform, disk, then the log.

    `broken` lists faults of the card itself that the readings showed during the attempt.
    """
    if broken:
        said = (*broken, *_lines(suspects), *verdict.evidence)
        return Classed(HARDWARE, verdict.word, _ids(suspects), "the card failed: %s" % broken[0], said)
    top = suspects[0] if suspects else None
    certain = top if top is not None and top.confidence == "certain" else None
    if certain is not None and certain.entry.tier <= _HARDWARE_TIER:
        return _by_sign(verdict, certain, suspects)
    if verdict.word == who_killed_it.DIVERGED:
        said = (*verdict.evidence, *_lines(suspects))
        return Classed(BUG, verdict.word, _ids(suspects), _SAYS[verdict.word], said)
    if verdict.word in _FIRST:
        return _by_verdict(verdict)
    if certain is not None and certain.entry.tier < _FALLBACK_TIER and certain.entry.klass in _OF_CATALOGUE:
        return _by_sign(verdict, certain, suspects)
    if disk.full:
        why = "the disk is full: %s" % disk.full
        return Classed(DISK_FULL, verdict.word, _ids(suspects), why, (disk.full, *_lines(suspects), *verdict.evidence))
    if certain is not None and certain.entry.klass in _OF_CATALOGUE:
        return _by_sign(verdict, certain, suspects)
    if verdict.word in _OF_VERDICT:
        return _by_verdict(verdict)
    if top is not None and top.entry.klass in _OF_CATALOGUE:
        return _by_sign(verdict, top, suspects)
    return Classed(UNKNOWN, verdict.word, (), _SAYS[verdict.word], verdict.evidence)


def _by_sign(verdict: Verdict, item: Candidate, suspects: Sequence[Candidate]) -> Classed:
    klass = WALLTIME if item.entry.id in _WALLTIME_SIGNS else _OF_CATALOGUE[item.entry.klass]
    text = item.evidence[0].text
    why = "%s: %s" % (item.entry.id, text[:200]) if item.confidence == "certain" else "%s, likely" % item.entry.id
    return Classed(klass, verdict.word, _ids(suspects), why, (*_lines(suspects), *verdict.evidence))


def _by_verdict(verdict: Verdict) -> Classed:
    return Classed(_OF_VERDICT[verdict.word], verdict.word, (), _SAYS[verdict.word], verdict.evidence)


def _ids(suspects: Sequence[Candidate]) -> Tuple[str, ...]:
    return tuple(item.entry.id for item in suspects[:5])


def _lines(suspects: Sequence[Candidate]) -> List[str]:
    """Format the first line of each of the first suspects, with its place."""
    said = []
    for item in suspects[:3]:
        first = item.evidence[0]
        where = "line %d" % first.line if first.line else first.source
        said.append("%s (%s): %s" % (item.entry.id, where, first.text[:200]))
    return said
