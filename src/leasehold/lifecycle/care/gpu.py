"""Check a box's GPUs: health, holders, and ending zombies after a person's typed yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError
from leasehold.gates.care.gpu_health import GpuReadings, Health, Level, judge_health, thresholds, worst
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.platforms.contract import MachineEngine


_SAMPLES = 5  # a second apart; a single one may be a spike
_GRACE_S = 10.0


@dataclass(frozen=True)
class GpuReport:
    """The state of a box's GPUs, judged."""

    box: str
    readings: GpuReadings
    health: tuple[Health, ...]

    @property
    def level(self) -> Level:
        """Return the worst level found."""
        return worst(self.health)

    @property
    def zombies(self) -> tuple[dict[str, Any], ...]:
        """Return the processes that hold a GPU and belong to no work."""
        return tuple(dict(row) for row in self.readings.holders if row["zombie"])

    def as_dict(self) -> dict[str, Any]:
        """Convert for --json."""
        return {
            "box": self.box,
            "level": self.level.value,
            "health": [health.as_dict() for health in self.health],
            "cards": list(self.readings.cards),
            "samples": list(self.readings.samples),
            "holders": list(self.readings.holders),
            "listed_by_driver": not self.readings.blind,
            "thresholds": thresholds(),
        }


def survey(home: Home, name: str, report: Report, samples: int = _SAMPLES) -> GpuReport:
    """Sample the GPUs and judge them; change nothing."""
    with box_called(home, name).connect() as engine:
        return _survey(engine, name, report, samples)


def end_zombies(home: Home, name: str, ask: Ask, report: Report) -> tuple[GpuReport, list[dict[str, Any]]]:
    """End zombies after a person typed which; the box checks each again before that."""
    with box_called(home, name).connect() as engine:
        seen = _survey(engine, name, report, _SAMPLES)
        zombies = seen.zombies
        if not zombies:
            return seen, []
        report(Note("gpu_zombies", "\n".join(say_holder(row) for row in zombies), {"zombies": list(zombies)}))
        phrase = "kill " + " ".join(str(row["pid"]) for row in zombies)
        require_phrase(ask, f"these processes on {name} will be ended. To approve", phrase, "nothing was ended")
        targets = [{"pid": row["pid"], "started": row["started"]} for row in zombies]
        done = engine.care.end_holders(targets, _GRACE_S)
        home.ledger.append("zombies_ended", box=name, by=person(), results=done)
        return seen, done


def say_holder(row: dict[str, Any]) -> str:
    """Format a process that has a GPU open."""
    from leasehold.model.values.units import say_bytes
    from leasehold.model.values.wording import ago

    memory = "memory unknown" if row.get("memory_bytes") is None else say_bytes(int(row["memory_bytes"]))
    cards = ",".join(row.get("cards") or ["card unknown"])
    return f"pid {row['pid']}  {cards}  {ago(float(row['age_s']))} old  {memory}  {row['command']}\n    {row['why']}"


def _survey(engine: MachineEngine, name: str, report: Report, samples: int) -> GpuReport:
    last: dict[str, Any] = {}
    for answer in engine.care.gpu_survey(samples):
        if "sample" in answer:
            report(Note("gpu_sample", f"sample {answer['sample']} of {answer['of']}", answer))
        else:
            last = answer
    try:
        readings = _readings(last)
    except (KeyError, TypeError, ValueError) as error:
        raise BoxError("gpu.strange_answer", f"{name} sent an unreadable survey: {error!r}") from None
    return GpuReport(name, readings, tuple(judge_health(readings)))


def _readings(value: dict[str, Any]) -> GpuReadings:
    """Validate an untrusted box's GPU report."""
    holders = [_holder(row) for row in value["holders"]]
    return GpuReadings(
        cards=tuple(dict(card) for card in value["cards"] if card),
        problem=str(value["problem"]),
        samples=tuple(tuple(dict(card) for card in sample) for sample in value["samples"]),
        cuda=str(value["cuda"]),
        toolkit=str(value["toolkit"]),
        module=str(value["module"]),
        kernel=dict(value["kernel"]),
        listed=tuple((int(pid), str(uuid), used) for pid, uuid, used in value["listed"]),
        blind=bool(value["blind"]),
        holders=tuple(holders),
        devices=tuple(map(str, value["devices"])),
    )


def _holder(row: dict[str, Any]) -> dict[str, Any]:
    memory = row["memory_bytes"]
    return {
        "pid": int(row["pid"]),
        "started": str(row["started"]),
        "age_s": float(row["age_s"]),
        "user_id": int(row["user_id"]),
        "mine": bool(row["mine"]),
        "command": str(row["command"]),
        "cards": [str(card) for card in row["cards"]],
        "memory_bytes": None if memory is None else int(memory),
        "listed": bool(row["listed"]),
        "run": str(row["run"]),
        "zombie": bool(row["zombie"]),
        "why": str(row["why"]),
    }
