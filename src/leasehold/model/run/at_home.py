"""How far a run's artifacts and states are home when there is no receipt: one line an artifact, one a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago, one_line

_NAMED = 3


class Standing(Enum):
    """How far one promised artifact of one cell is home."""

    VERIFIED = "home and verified"  # a receipt covers it
    HOME = "home, hash-equal"
    PARTLY = "partly home"
    NOT_HOME = "not home"
    ABSENT = "not there yet"
    UNREADABLE = "unreadable on the box"
    UNKNOWN = "not home; what the box has is unknown"


@dataclass(frozen=True)
class ArtifactAtHome:
    """One promised artifact of one cell: what came of it, and what did not and why."""

    cell: str
    pattern: str
    standing: Standing
    files: int = 0
    bytes: int = 0
    left: tuple[tuple[str, str], ...] = ()  # path, why
    as_of_unix: float = 0.0  # the box was not asked now: what is home is from then

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        left = [{"path": path, "why": why} for path, why in self.left]
        return {**vars(self), "standing": self.standing.name.lower(), "left": left}

    def words(self, now_unix: float) -> str:
        """Describe it in one line."""
        size = f": {_files(self.files)}, {say_bytes(self.bytes)}" if self.files else ""
        since = f", as of {ago(max(0.0, now_unix - self.as_of_unix))} ago" if self.as_of_unix and self.files else ""
        left = "; ".join(f"{one_line(path)}: {one_line(why)}" for path, why in self.left[:_NAMED])
        more = f"; {len(self.left) - _NAMED} more" if len(self.left) > _NAMED else ""
        named = ": " if self.standing is Standing.NOT_HOME else "; not home: "
        not_home = f"{named}{left}{more}" if left else ""
        return f"{self.cell}: {one_line(self.pattern)}  {self.standing.value}{size}{since}{not_home}"


@dataclass(frozen=True)
class StateAtHome:
    """The newest whole state of a cell that is home."""

    cell: str
    path: str  # of the file or folder, relative to $LEASE_OUT
    place: str  # where it lies here
    step: int | None
    made_unix: float
    files: int = 0
    bytes: int = 0
    loads: str = ""  # what the readers found
    passed_over: tuple[tuple[str, str], ...] = ()  # newer ones that are not whole: path, why

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        passed = [{"path": path, "why": why} for path, why in self.passed_over]
        return {**vars(self), "passed_over": passed}

    def words(self, now_unix: float) -> str:
        """Describe it in one line."""
        step = f"step {self.step:,}, " if self.step is not None else ""
        age = f"saved {ago(max(0.0, now_unix - self.made_unix))} ago"
        size = f", {_files(self.files)}, {say_bytes(self.bytes)}" if self.files else ""
        loads = f", {self.loads}" if self.loads else ""
        passed = "".join(f"; passed over: {one_line(path)} ({one_line(why)})" for path, why in self.passed_over[:1])
        return f"{self.cell}: {one_line(self.path)}, {step}{age}{size}{loads}{passed}"


def artifact_from(value: Mapping[str, Any]) -> ArtifactAtHome:
    """Read back the output of `as_dict`."""
    left = tuple((str(one["path"]), str(one["why"])) for one in value["left"])
    return ArtifactAtHome(**{**value, "standing": Standing[str(value["standing"]).upper()], "left": left})


def state_from(value: Mapping[str, Any]) -> StateAtHome:
    """Read back the output of `as_dict`."""
    passed = tuple((str(one["path"]), str(one["why"])) for one in value["passed_over"])
    return StateAtHome(**{**value, "passed_over": passed})


def lines(artifacts: Sequence[ArtifactAtHome], states: Sequence[StateAtHome], now_unix: float) -> list[str]:
    """Describe artifacts and states, one a line; equal ones of many cells together."""
    shown: list[str] = []
    alike: dict[tuple[str, Standing], list[ArtifactAtHome]] = {}
    for one in artifacts:
        if one.left or one.standing in (Standing.PARTLY, Standing.UNREADABLE):
            shown.append(one.words(now_unix))
        else:
            alike.setdefault((one.pattern, one.standing), []).append(one)
    for (pattern, standing), several in alike.items():
        if len(several) == 1:
            shown.append(several[0].words(now_unix))
            continue
        cells = ", ".join(one.cell for one in several[:_NAMED]) + (", …" if len(several) > _NAMED else "")
        files, size = sum(one.files for one in several), sum(one.bytes for one in several)
        sized = f": {_files(files)}, {say_bytes(size)}" if files else ""
        shown.append(f"{len(several)} cells ({cells}): {one_line(pattern)}  {standing.value}{sized}")
    return shown + [f"newest state of {one.words(now_unix)}" for one in states]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
