"""Read a training's progress from its output, in chunks of any size; time and memory are bounded.

Every counter in a log (a bar, the number after "step") is a track. One track is the training; the others are
validation, loading or an outer loop, and must not move it. `Track.rank` distinguishes them.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, deque
from typing import Deque, Dict, List, Mapping, NamedTuple, Optional, Protocol, Tuple

from .progress_counters import Counter, Counters, Epochs, Track
from .progress_lines import ANY_LOSS, Sight, read_by, read_line, user_pattern, worth_reading
from .safe_text import plain

_LINE_CHARS = 4096  # of a longer line only the beginning is read
_SLICE_CHARS = 1 << 16
_MAX_METRICS = 16
_CURSOR_MOVE = re.compile(r"\x1b\[[0-9;]{0,9}[A-Ha-hJj]")


class Progress(NamedTuple):
    """The progress of a training according to its log; None if the log does not show it."""

    step: Optional[int] = None
    total: Optional[int] = None
    epoch: Optional[float] = None
    epochs: Optional[int] = None
    loss: Optional[float] = None
    metrics: Dict[str, float] = {}
    rate_per_s: Optional[float] = None
    eta_s: Optional[float] = None  # as of seen_at
    seen_at: Optional[float] = None
    eta_of: str = ""  # "run", or "epoch" if only the end of this epoch can be predicted
    restarts: int = 0  # how often the step went back, as after a resume


class Place(NamedTuple):
    """Where the training began and is now, and by which counter."""

    track: str
    first: Optional[int]
    step: int
    first_epoch: Optional[float]
    epoch: Optional[float]
    in_epoch: bool  # the step restarts with each epoch


class Listener(Protocol):
    """Receives every number of a log, while `now` keeps the newest."""

    def loss(self, value: float, step: Optional[int]) -> None:
        """Receive a loss of the training."""

    def metrics(self, values: Mapping[str, float], step: Optional[int]) -> None:
        """Receive the other numbers of a line."""


class ProgressReader:
    """Parses log text as it arrives; `now` is the progress so far."""

    def __init__(self, pattern: str = "auto", listener: Optional[Listener] = None) -> None:
        """Read by guessing (auto), not at all (none), or by a regex with groups step[, total, loss, epoch]."""
        self._listener = listener
        self._off = pattern == "none"
        self._user = None if pattern in ("auto", "none") else user_pattern(pattern)
        self._held = ""
        self._counters = Counters()
        self._last = Sight()  # the newest of the training
        self._epochs = Epochs()
        self._pace = _Pace()
        self._loss: Optional[float] = None
        self._loss_rank = ANY_LOSS
        self._history = LossHistory()
        self._metrics: OrderedDict[str, float] = OrderedDict()
        self._seen_at: Optional[float] = None
        self._restarts = 0

    def feed(self, text: str, at: Optional[float] = None) -> None:
        """Parse text seen at a monotonic time; None means that it is old, so its steps give no rate."""
        for start in range(0, 0 if self._off else len(text), _SLICE_CHARS):
            piece = text[start : start + _SLICE_CHARS].replace("\r", "\n")
            done, newline, rest = (self._held + (piece if self._user else piece.lower())).rpartition("\n")
            self._held = rest[:_LINE_CHARS]
            lines = done.split("\n") if self._user else worth_reading(done, _LINE_CHARS)
            for line in lines if newline else ():
                self._read(line, at)

    @property
    def now(self) -> Progress:
        """Return the progress so far."""
        main = self._counters.main
        counts = main is not None and not main.counts_epochs
        rate = self._last.rate_per_s or self._pace.per_s
        eta_s, eta_of = self._eta(rate)
        return Progress(
            step=main.step if main and counts else None,
            total=main.total if main and counts else None,
            epoch=self._epochs.epoch,
            epochs=self._epochs.epochs,
            loss=self._loss,
            metrics=dict(self._metrics),
            rate_per_s=rate if counts else None,
            eta_s=eta_s,
            seen_at=self._seen_at,
            eta_of=eta_of,
            restarts=self._restarts,
        )

    @property
    def main(self) -> str:
        """Return the key of the training's counter; empty until one is known."""
        return self._counters.main.key if self._counters.main is not None else ""

    @property
    def counters(self) -> Dict[str, Counter]:
        """Return every counter of the log by its key, except those of validation, loading and the like."""
        return self._counters.all

    @property
    def first_epoch(self) -> Optional[float]:
        """Return the lowest epoch that a line of the training named."""
        return self._epochs.lowest

    @property
    def place(self) -> Optional[Place]:
        """Return where the training is and began, once a counter with a loss is known to be its own."""
        main = self._counters.main
        return self.any_place if main is not None and main.has_loss else None

    @property
    def any_place(self) -> Optional[Place]:
        """Return where the training is and began, by its likeliest counter: with a loss, or rising steadily."""
        main = self._counters.main
        if main is None or main.counts_epochs or not (main.has_loss or main.steady):
            return None
        inside = self._epochs.inside(self._last)
        return Place(main.key, main.first, main.step, self._epochs.first, self._epochs.epoch, inside)

    @property
    def losses(self) -> List[float]:
        """Return the loss over the whole run, in at most LossHistory.POINTS means."""
        return list(self._history.points)

    def _read(self, line: str, at: Optional[float]) -> None:
        for part in _CURSOR_MOVE.split(line) if "\x1b" in line else (line,):
            text = part if part.isprintable() else plain(part)
            sight = read_by(self._user, text) if self._user else read_line(text)
            if sight is not None:
                self._take(sight, at)

    def _take(self, sight: Sight, at: Optional[float]) -> None:
        for name, value in sight.metrics.items():
            self._metrics.pop(name, None)
            self._metrics[name] = value
        while len(self._metrics) > _MAX_METRICS:
            self._metrics.popitem(last=False)
        if self._listener is not None and sight.metrics:
            self._listener.metrics(sight.metrics, sight.step)
        if sight.side or (sight.step is not None and not self._take_step(sight, at)):
            return
        if sight.step is None:
            self._epochs.take(sight)
        if sight.loss is not None and sight.loss_rank <= self._loss_rank:
            self._loss, self._loss_rank, self._seen_at = sight.loss, sight.loss_rank, at
            self._history.add(sight.loss)
            if self._listener is not None:
                self._listener.loss(sight.loss, sight.step)
            self._counters.main_has_loss()

    def _take_step(self, sight: Sight, at: Optional[float]) -> bool:
        """Move the sight's track; return whether it is the training's."""
        main_before = self._counters.main
        moved = self._counters.move(sight, self._epochs.epoch if sight.epoch is None else sight.epoch)
        main = self._counters.main
        if main is not main_before:
            self._last, self._pace = Sight(), _Pace()
        if moved is None or main is None:
            return False
        if moved.track is not main:
            return self._take_beside(moved.track, main, sight)
        self._advance(main, moved.before, sight, at)
        return True

    def _take_beside(self, track: Track, main: Track, sight: Sight) -> bool:
        """Read the epoch from another counter; return whether a loss beside it is the training's."""
        if track.counts_epochs:
            self._epochs.take(sight)
            return self._last.loss is None
        if track.surrounds(main):
            self._epochs.take_loop(track)
        return False

    def _advance(self, track: Track, before: int, sight: Sight, at: Optional[float]) -> None:
        self._epochs.take(sight)
        new_pass = self._epochs.moved(track, before)
        fell = track.step < before
        if fell and not new_pass:
            self._restarts += 1
            self._loss_rank = ANY_LOSS
            self._pace = _Pace()
        done = track.step + max(0, (track.total or before) - before) if fell else track.step - before
        self._pace.add(done if before >= 0 else 0, at)
        self._last, self._seen_at = sight, at

    def _eta(self, rate: Optional[float]) -> Tuple[Optional[float], str]:
        main, left = self._counters.main, self._last.eta_s
        if main is not None and left is None and rate and main.total is not None:
            left = max(0, main.total - main.step) / rate
        if main is None or left is None:
            return None, ""
        if self._last.eta_is_runs or main.counts_epochs or not self._epochs.inside(self._last):
            return left, "run"
        more = self._epochs.remaining
        if more is None or main.total is None or (more and not rate):
            return left, "epoch"
        return left + (more * main.total / rate if rate else 0.0), "run"


class LossHistory:
    """The whole run's loss in a bounded number of points: when full, neighbours are averaged."""

    POINTS = 256

    def __init__(self) -> None:
        self.points: List[float] = []
        self._stride, self._sum, self._count = 1, 0.0, 0

    def add(self, loss: float) -> None:
        """Add one loss; NaN or infinity stays visible as NaN in its point."""
        self._sum += loss if math.isfinite(loss) else math.nan
        self._count += 1
        if self._count < self._stride:
            return
        self.points.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self.points) >= self.POINTS:
            self.points = [(first + second) / 2 for first, second in zip(self.points[::2], self.points[1::2])]
            self._stride *= 2


class _Pace:
    """Steps per second, over the last thirty-two moments at least a second apart."""

    def __init__(self) -> None:
        self._samples: Deque[Tuple[float, int]] = deque(maxlen=32)
        self._travelled = 0
        self._newest = self._settled_at = 0.0

    def add(self, steps: int, at: Optional[float]) -> None:
        """Add steps done by now; those of the first second may have been written long before we looked."""
        self._travelled += steps
        if at is None:
            self._samples.clear()
            return
        self._settled_at = self._settled_at if self._samples else at + 1
        if at < self._settled_at:
            self._samples.clear()
        if not self._samples or at - self._samples[-1][0] >= 1:
            self._samples.append((at, self._travelled))
        self._newest = at

    @property
    def per_s(self) -> Optional[float]:
        """Return the rate, or None until a second has passed."""
        if not self._samples or self._newest - self._samples[0][0] < 1:
            return None
        return (self._travelled - self._samples[0][1]) / (self._newest - self._samples[0][0]) or None
