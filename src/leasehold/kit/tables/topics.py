"""The topics of notices that a job's `notify.on` chooses from."""

from __future__ import annotations

from typing import Any, Dict, Tuple

LOW, DEFAULT, HIGH = "low", "default", "high"  # how urgent a notice is

TOPICS: Dict[str, str] = {
    "started": "a run was opened or resumed",
    "ended": "a run finished or was stopped",
    "failed": "a run or a cell failed, or could not be started",
    "remedy": "an attempt ended badly, and what is done about it",
    "stalled": "it makes no progress any more, or it ended far too early",
    "alarm": "a disk, memory, card or loss needs a look",
    "refuge": "checkpoints cannot be copied off the box, or the run was given to another one",
    "preempt": "the platform takes the box away",
    "budget": "half, four fifths or all of the budget is used",
    "meter": "the run has ended and the box still bills: 15 min, 1 h, then every 4 h",
}
USUAL: Tuple[str, ...] = tuple(topic for topic in TOPICS if topic != "started")


def wanted(wishes: Dict[str, Any]) -> Tuple[str, ...]:
    """Return the topics that a person chose; the defaults if none are given."""
    chosen = wishes.get("on")
    return tuple(str(topic) for topic in chosen) if isinstance(chosen, list) else USUAL
