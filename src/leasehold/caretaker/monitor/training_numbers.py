"""Watch the numbers that every training prints, raise alarms when it diverged, stop it if the job asks for that.

Each cell's log is read as it grows. What an earlier attempt reached is read from its own log, so that a new caretaker
knows it too.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from leasehold.caretaker.process.end_processes import signal_all, trainer_processes
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import TRAIN, CellState
from leasehold.kit.text.progress import Place, ProgressReader

from .alarms import Alarms
from .divergence import LIMITS, Divergence, step_back
from .log_reader import finite

_PIECE_BYTES = 256 << 10
_BACKLOG_BYTES = 1 << 20  # of a log that is further ahead of us, only the end is read
_SAMPLE_BYTES = 64 << 10  # of an earlier attempt's log: its beginning and its end
_EARLIER = 20
_LEAST_STEPS, _LEAST_EPOCHS = 10, 2  # any interruption loses less than this
_LOST_SHARE = 0.5  # with checkpoints at a fixed pace, a resume never loses more than half of the way
STOP = "stop"


class _Way(NamedTuple):
    """Where an earlier attempt began and ended."""

    attempt: int
    begin: int
    end: int


class _Fall(NamedTuple):
    """Where an attempt began, and what had been reached."""

    began: int
    reached: int
    unit: str


class _Look:
    """What was read of one attempt."""

    def __init__(self, attempt: int, pattern: str) -> None:
        self.attempt = attempt
        self.offset = 0
        self.whole = True  # read from its first line
        self.over = False
        self.compared = False
        self.tried = ""  # the counter by which it was compared last
        self.fall: Optional[_Fall] = None
        self.bad_s: Optional[float] = None
        self.numbers = Divergence()
        self.reader = _reader(pattern, self.numbers)


class TrainingLook:
    """The numbers of each cell's newest attempt."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self._folder, self._plan, self._note = folder, plan, note
        self._looks: Dict[str, _Look] = {}

    def step(self, name: str, cell: CellState, alarms: Alarms, now_s: float) -> None:
        """Look at a running training; end it where its job asks for that."""
        if cell.state != "running" or cell.stage != TRAIN:
            return
        look = self._of(name, cell)
        self._read(name, look)
        self._judge(name, cell, look, alarms)
        self._stop(name, cell, look, now_s)

    def last(self, name: str, cell: CellState, alarms: Alarms, now_s: float) -> None:
        """Look at what an attempt printed before its end; a second call does nothing."""
        look = self._of(name, cell)
        if look.over or cell.stage != TRAIN or not cell.attempt:
            return
        look.over = True
        self._read(name, look)
        look.reader.feed("\n")
        self._judge(name, cell, look, alarms)

    def reached(self, name: str, attempt: int) -> Dict[str, Any]:
        """Return how far an attempt came, by what was read of its log."""
        look = self._looks.get(name)
        if look is None or look.attempt != attempt:
            return {}
        seen = look.reader.now
        figures = {"step": seen.step, "total": seen.total, "epoch": seen.epoch}
        loss = {} if seen.loss is None else {"loss": finite(seen.loss)}
        return dict({key: figure for key, figure in figures.items() if figure is not None}, **loss)

    def _of(self, name: str, cell: CellState) -> _Look:
        look = self._looks.get(name)
        if look is None or look.attempt != cell.attempt:
            look = self._looks[name] = _Look(cell.attempt, self._pattern)
        return look

    @property
    def _pattern(self) -> str:
        return str(self._plan["job"].get("progress") or "auto")

    def _log(self, name: str, attempt: int) -> str:
        return os.path.join(self._folder.attempt(name, attempt), "log")

    def _read(self, name: str, look: _Look) -> None:
        try:
            with open(self._log(name, look.attempt), "rb") as file:
                ahead = os.fstat(file.fileno()).st_size - look.offset
                if ahead > _BACKLOG_BYTES:
                    look.offset, look.whole = look.offset + ahead - _SAMPLE_BYTES, False
                file.seek(look.offset)
                for _ in range(_BACKLOG_BYTES // _PIECE_BYTES):
                    data = file.read(_PIECE_BYTES)
                    look.offset += len(data)
                    look.reader.feed(data.decode("utf-8", "replace"))
                    if len(data) < _PIECE_BYTES:
                        return
        except OSError:
            return  # there is no log yet

    def _judge(self, name: str, cell: CellState, look: _Look, alarms: Alarms) -> None:
        def note(kind: str, **facts: Any) -> None:
            self._note(kind, cell=name, attempt=cell.attempt, **facts)

        where = name if self._plan["job"].get("cells") else ""
        signs = list(look.numbers.signs(where, self._folder.run))
        if cell.attempt > 1 and not look.compared:
            self._compare(name, cell, look, note)
        if look.fall is not None:
            signs.append(step_back(where, cell.attempt, *look.fall, now=_now(look)))
        alarms.judge(signs, note)

    def _compare(self, name: str, cell: CellState, look: _Look, note: Callable[..., None]) -> None:
        """Compare, once, where this attempt began with how far the earlier ones came, by the same counter."""
        place = look.reader.any_place
        if place is None or place.track == look.tried or (place.step == 0 and place.first is None):
            return
        look.tried = place.track
        mine = place if look.whole else _sample(self._log(name, look.attempt), self._pattern, end=False)
        if mine is None or mine.track != place.track:
            return
        unit = "epoch" if place.in_epoch else "step"
        began = _count(mine, unit, first=True)
        ways = self._ways(name, look.attempt, place.track, unit)
        if began is None or not ways:
            return  # an evaluation's own counter may have been first; the training's follows
        look.compared = True
        first, furthest = min(way.begin for way in ways), max(ways, key=lambda way: way.end)
        if look.reader.place is not None:
            look.fall = _fall(began, first, furthest.end, unit)
        if all(one.get("attempt") != look.attempt for one in cell.began):
            facts = {"began": began, "first": first, "reached": furthest.end, "before": furthest.attempt, "unit": unit}
            note("attempt_began", **facts, **({"alarm": True} if look.fall else {}))

    def _ways(self, name: str, attempt: int, track: str, unit: str) -> List[_Way]:
        """Read where the earlier attempts began and ended, of those whose logs count by the same counter."""
        found = []
        for number in range(max(1, attempt - _EARLIER), attempt):
            log = self._log(name, number)
            begin, end = (_sample(log, self._pattern, end) for end in (False, True))
            if begin is None or end is None or begin.track != track or end.track != track:
                continue
            first, last = _count(begin, unit, first=True), _count(end, unit, first=False)
            if first is not None and last is not None:
                found.append(_Way(number, first, last))
        return found

    def _stop(self, name: str, cell: CellState, look: _Look, now_s: float) -> None:
        """End a training whose loss stays not finite, where its job asks for that.

        By SIGKILL: SIGTERM asks for a checkpoint, and this one would be of NaN.
        """
        if cell.diverged != cell.attempt:
            if not look.numbers.is_bad:
                look.bad_s = None
                return
            look.bad_s = now_s if look.bad_s is None else look.bad_s
            long = look.numbers.bad_row >= LIMITS.stop_after or now_s - look.bad_s >= LIMITS.stop_after_s
            if not long or on_nan(self._plan["job"], name) != STOP:
                return
            self._note("nan_stop", cell=name, attempt=cell.attempt, seen=look.numbers.seen())
        alive = trainer_processes(cell.pid, cell.started, self._folder.mark(name, cell.attempt))
        signal_all(alive, cell.pid, signal.SIGKILL)


def on_nan(job: Dict[str, Any], name: str) -> str:
    """Return a cell's `on_nan` policy: what to do about a loss that is not finite."""
    cells: List[Dict[str, Any]] = job.get("cells") or []
    own = next((cell.get("on_nan") for cell in cells if cell.get("name") == name), None)
    return str(own or job.get("on_nan") or "tell")


def _reader(pattern: str, listener: Optional[Divergence] = None) -> ProgressReader:
    try:
        return ProgressReader(pattern, listener)
    except ValueError:  # a pattern that home accepted and we cannot compile
        return ProgressReader("none", listener)


def _sample(log: str, pattern: str, end: bool) -> Optional[Place]:
    """Read the beginning or the end of a log."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SAMPLE_BYTES) if end else 0)
            data = file.read(_SAMPLE_BYTES)
    except OSError:
        return None
    reader = _reader(pattern)
    reader.feed(data.decode("utf-8", "replace") + "\n")
    return reader.any_place


def _count(place: Place, unit: str, *, first: bool) -> Optional[int]:
    """Return where an attempt began or is, in steps or in epochs."""
    if unit == "epoch":
        epoch = place.first_epoch if first else place.epoch
        return None if epoch is None else int(epoch)
    return place.first if first else place.step


def _fall(began: int, first: int, furthest: int, unit: str) -> Optional[_Fall]:
    least = _LEAST_STEPS if unit == "step" else _LEAST_EPOCHS
    if furthest - first < least or furthest - began <= _LOST_SHARE * (furthest - first):
        return None
    return _Fall(began, furthest, unit)


def _now(look: _Look) -> Optional[float]:
    place = look.reader.place
    if place is None or look.fall is None:
        return None
    return place.epoch if look.fall.unit == "epoch" else place.step
