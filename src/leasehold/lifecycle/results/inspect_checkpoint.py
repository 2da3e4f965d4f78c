"""Inspect a checkpoint without trusting it, and compute how often to write one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError, VerifyError
from leasehold.gates.care.other_files import judge_file
from leasehold.gates.start.resuming import judge_checkpoint
from leasehold.kit.files.atomic import read_json
from leasehold.kit.readers.checkpoints.folders import folder_kind
from leasehold.kit.run.cadence import QUIET_GAP_S, SPOT_GAP_S, Loss, expected_loss, interval_s, whole_steps
from leasehold.kit.tables.file_endings import guess_format, guess_kind
from leasehold.lifecycle.confine.check_loads import LoadRequest, LoadResult, check_loads
from leasehold.model.run.unread_files import reason as reason_unread
from leasehold.model.run.verdict import Verdict
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.model.values.units import parse_duration

_STEP = re.compile(r"step-\d+\.(safetensors|dcp)\Z")


@dataclass(frozen=True)
class Inspection:
    """What a checkpoint contains, and what that means for a resume."""

    path: str
    load: LoadResult
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {
            "path": self.path,
            **self.load.reading,
            "torch_load": self.load.torch_load,
            "confinement": list(self.load.confinement),
            **self.verdict.as_dict(),
        }


def inspect(path: Path) -> Inspection:
    """Read a file or folder in a confined process; a folder of our checkpoints stands for its newest."""
    chosen = _newest(path)
    if not chosen.exists():
        raise UserError("ckpt.absent", f"{path} is not there", hint="name a file, or a folder of checkpoints")
    form = "" if chosen.is_dir() else guess_format(chosen.name)
    load = _load(chosen, form or "checkpoint")
    if form and load.reading.get("kind") == "torch":  # torch.save wrote it under another extension
        form, load = "", _load(chosen, "checkpoint")
    if not load.ok:
        reader = "" if chosen.is_dir() or guess_kind(chosen.name) != "bytes" else reason_unread(chosen.name)
        seen = f": {reader}; as a checkpoint it does not load" if reader else " does not load"
        raise VerifyError("ckpt.unreadable", f"{chosen}{seen}: {load.reason}", hint="an older one may: look into each")
    keys, opaque, notes = (tuple(map(str, _list(load, name))) for name in ("keys", "opaque", "notes"))
    if form:
        return Inspection(str(chosen), load, judge_file(form, opaque, load.reading.get("numbers")))
    verdict = judge_checkpoint(str(load.reading.get("kind")), keys, opaque, notes, load.torch_load)
    return Inspection(str(chosen), load, verdict)


def _load(chosen: Path, kind: str) -> LoadResult:
    python = os.environ.get("LEASEHOLD_PYTHON") or None  # an interpreter with torch, for the second opinion
    return check_loads([LoadRequest(str(chosen), kind, allow_opaque=True)], python=python)[0]


def _list(load: LoadResult, name: str) -> list[object]:
    found = load.reading.get(name)
    return found if isinstance(found, list) else []


def _newest(path: Path) -> Path:
    if not path.is_dir() or folder_kind(str(path)):
        return path
    ours = sorted(name for name in os.listdir(path) if _STEP.fullmatch(name))
    if not ours:
        raise UserError("ckpt.none", f"{path} holds no checkpoint we know", hint="name the file itself")
    return path / ours[-1]


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
