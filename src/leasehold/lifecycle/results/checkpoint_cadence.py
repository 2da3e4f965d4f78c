"""Compute how often to write a checkpoint, from stated and measured numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.cadence import QUIET_GAP_S, SPOT_GAP_S, Loss, expected_loss, interval_s, whole_steps
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.model.values.units import parse_duration


@dataclass(frozen=True)
class Reckoned:
    """A checkpoint interval, the source of its numbers, and what it loses."""

    cost_s: float
    gap_s: float
    step_s: float
    every_s: float
    loss: Loss
    sources: dict[str, str]
    hour: Money | None = None

    @property
    def every_steps(self) -> int:
        """Return whole steps between saves; 0 when their length is not known."""
        return whole_steps(self.every_s, self.step_s)

    @property
    def lost_per_day(self) -> Money | None:
        """Return the money lost per day of running."""
        return None if self.hour is None else self.hour.times(24 * self.loss.share)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        lost = self.lost_per_day
        return {
            "every_s": round(self.every_s, 1), "every_steps": self.every_steps, "cost_s": self.cost_s,
            "gap_s": self.gap_s, "step_s": self.step_s, "redone_s": round(self.loss.redone_s, 1),
            "lost_share": round(self.loss.share, 5), "saving_share": round(self.loss.saving_share, 5),
            "lost_s_per_day": round(86400 * self.loss.share, 1),
            "lost_per_day": None if lost is None else lost.as_dict(), "sources": self.sources,
        }  # fmt: skip


@dataclass(frozen=True)
class CadenceWishes:
    """Values that a person states instead of measuring."""

    write: str = ""
    step: str = ""
    gap: str = ""
    price: str = ""
    spot: bool = False


def reckon(folder: Path | None, facts: Any, wishes: CadenceWishes) -> Reckoned:
    """Take each number from the command line, else from what a Checkpointer measured, else from the job file."""
    measured = _measured(folder)
    cost_s, cost_from = _first((_seconds(wishes.write, "--write"), "stated"), measured.get("cost_s"), facts.write_s)
    step_s, step_from = _first((_seconds(wishes.step, "--step"), "stated"), measured.get("step_s"), facts.step_s)
    gap_s, gap_from = _first((_seconds(wishes.gap, "--interrupted-every"), "stated"), measured.get("gap_s"), 0.0)
    if not cost_s:
        raise UserError(
            "cadence.unknown_cost",
            "nobody knows how long a checkpoint takes",
            hint="--write 30s, or the folder of a Checkpointer, or checkpoint: {write_time: 30s} in the job file",
        )
    if not gap_s:
        gap_s, gap_from = (SPOT_GAP_S, "assumed for spot") if wishes.spot else (QUIET_GAP_S, "assumed")
    every_s = interval_s(cost_s, gap_s)
    steps = whole_steps(every_s, step_s)
    every_s = steps * step_s if steps else every_s
    hour = HourlyPrice.parse(wishes.price).money if wishes.price else None
    sources = {"cost_s": cost_from, "gap_s": gap_from, "step_s": step_from}
    return Reckoned(cost_s, gap_s, step_s, every_s, expected_loss(every_s, cost_s, gap_s), sources, hour)


def _first(stated: tuple[float, str], measured: object, written: float) -> tuple[float, str]:
    if stated[0]:
        return stated
    if isinstance(measured, (int, float)) and 0 < measured < 1e9:
        return float(measured), "measured"
    return written, "job file" if written else "unknown"


def _measured(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    record = read_json(str(folder / "sessions.json"))
    sessions = (record or {}).get("sessions")
    if not isinstance(sessions, list) or not sessions:
        raise UserError(
            "cadence.unmeasured", f"{folder} has no sessions.json of a Checkpointer", hint="state it: --write 30s"
        )
    found: dict[str, Any] = {}
    for session in sessions:
        if isinstance(session, dict):
            found.update(session)
    return found


def _seconds(text: str, flag: str) -> float:
    try:
        return parse_duration(text) if text else 0.0
    except ValueError as error:
        raise UserError("cadence.bad_duration", str(error), hint=f"{flag} 30s") from None
