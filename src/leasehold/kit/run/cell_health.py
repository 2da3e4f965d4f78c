"""The state of a cell: one pure function for both ends.

Facts only: locks, processes, exit records, artifacts, silence, the card, the processor. The program's output is
not among them. An unknown fact is None, and if it matters the state is unknown, never a guess.
"""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

RUNNING, STALLED, FINISHED, FAST_FINISHED, DEAD, UNKNOWN = (
    "running", "stalled", "finished", "fast-finished", "dead", "unknown",
)  # fmt: skip
STATES = (RUNNING, STALLED, FINISHED, FAST_FINISHED, DEAD, UNKNOWN)

STALL_AFTER_S = 1800.0
GPU_IDLE_PERCENT = 5.0
CPU_IDLE_CORES = 0.05
FAST_SHARE = 0.5  # of the expected time: a cell that ends sooner has probably failed


class Limits(NamedTuple):
    """The thresholds; a job may set the first."""

    stall_after_s: float = STALL_AFTER_S  # 0 is never
    gpu_idle_percent: float = GPU_IDLE_PERCENT
    cpu_idle_cores: float = CPU_IDLE_CORES
    fast_share: float = FAST_SHARE


USUAL = Limits()


class Facts(NamedTuple):
    """The facts about a cell's newest attempt."""

    link: bool = True  # whether the observer could look at all
    held: Optional[bool] = None  # the cell's lock
    alive: Optional[bool] = None  # whether that very process lives
    ended: Optional[bool] = None  # an exit record exists
    code: Optional[int] = None
    signal: Optional[int] = None
    sealed: Optional[bool] = None  # every promised artifact was read; False: missing; None: not yet checked
    quiet_s: Optional[float] = None  # since the log or a result last changed
    gpu_percent: Optional[float] = None  # the busiest of its cards
    cpu_cores: Optional[float] = None  # used lately
    took_s: Optional[float] = None
    expected_s: Optional[float] = None


class Health(NamedTuple):
    """The state, and its reasons."""

    state: str
    evidence: Tuple[str, ...]


def of_ended(cell: Mapping[str, Any]) -> Facts:
    """Collect the facts of a cell whose newest attempt no longer lives, from its serialised state."""
    attempt, fast = cell.get("attempt") or 0, cell.get("fast") or {}
    if not attempt:
        return Facts()
    sealed = True if cell.get("sealed") == attempt else False if cell.get("classed") == attempt else None
    return Facts(
        held=False,
        alive=False,
        ended=True,
        code=cell.get("code"),
        signal=cell.get("signal"),
        sealed=True if cell.get("state") == "finished" else sealed,
        took_s=fast.get("took_s"),
        expected_s=fast.get("expected_s"),
    )


def judge(facts: Facts, limits: Limits = USUAL) -> Health:
    """Return the one state that the facts show."""
    if not facts.link:
        return Health(UNKNOWN, ("the box did not answer",))
    if facts.ended:
        return _ended(facts, limits)
    if facts.alive or facts.held:
        return _living(facts, limits)
    if facts.alive is None or facts.held is None or facts.ended is None:
        missing = [word for word, fact in (("process", facts.alive), ("lock", facts.held)) if fact is None]
        missing += ["exit record"] if facts.ended is None else []
        return Health(UNKNOWN, ("not looked at: %s" % ", ".join(missing),))
    return Health(DEAD, ("no process, nobody holds its lock, and no exit record",))


def _ended(facts: Facts, limits: Limits) -> Health:
    if facts.code is None and facts.signal is None:
        return Health(DEAD, ("it ended, and nobody saw how",))
    if facts.signal is not None or facts.code != 0:
        how = "ended by signal %d" % facts.signal if facts.signal is not None else "exit code %s" % facts.code
        return Health(DEAD, (how,))
    if facts.sealed is None:
        return Health(UNKNOWN, ("exit code 0; its artifacts were not read yet",))
    if not facts.sealed:
        return Health(DEAD, ("exit code 0, but not every promised artifact is there",))
    said = ("exit code 0", "every promised artifact was read")
    if facts.took_s is not None and facts.expected_s and facts.took_s < limits.fast_share * facts.expected_s:
        return Health(FAST_FINISHED, (*said, "took %.0f s of %.0f s expected" % (facts.took_s, facts.expected_s)))
    return Health(FINISHED, said)


def _living(facts: Facts, limits: Limits) -> Health:
    """Judge a live cell: stalled means silent and still by every meter that could be read, and at least one could."""
    alive = "its process lives" if facts.alive else "somebody holds its lock"
    if not limits.stall_after_s:
        return Health(RUNNING, (alive,))
    if facts.quiet_s is None:
        return Health(UNKNOWN, (alive, "whether it still writes was not looked at"))
    quiet = "its last sign was %.0f s ago" % facts.quiet_s
    if facts.quiet_s < limits.stall_after_s:
        return Health(RUNNING, (alive, quiet))
    meters = _meters(facts, limits)
    said = tuple(text for text, _ in meters)
    if not meters:
        return Health(UNKNOWN, (alive, quiet, "neither card nor processor could be read"))
    if any(busy for _, busy in meters):
        return Health(RUNNING, (alive, quiet, *said))
    return Health(STALLED, (alive, quiet, *said))


def _meters(facts: Facts, limits: Limits) -> List[Tuple[str, bool]]:
    found = []
    if facts.gpu_percent is not None:
        found.append(("the card is at %.0f %%" % facts.gpu_percent, facts.gpu_percent > limits.gpu_idle_percent))
    if facts.cpu_cores is not None:
        found.append(("its processes use %.2f cores" % facts.cpu_cores, facts.cpu_cores > limits.cpu_idle_cores))
    return found
