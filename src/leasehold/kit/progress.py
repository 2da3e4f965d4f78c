"""Read how far a training is from what it prints, in any chunks; time and memory are bounded.

Every counter in a log (a bar, the number after "step") is a track. One track is the training; the others are
validation, loading or an outer loop, and must not move it. `_Track.rank` says what tells them apart.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, deque
from typing import Deque, Dict, List, NamedTuple, Optional, Tuple

from .progress_lines import ANY_LOSS, Sight, read_by, read_line, user_pattern, worth_reading
from .terminal import plain

_LINE_CHARS = 4096  # of a longer line only the beginning is read
_SLICE_CHARS = 1 << 16
_MAX_TRACKS, _MAX_METRICS = 16, 16
_STALE_SIGHTS = 2000  # a training that is silent this long while others move was none
_CURSOR_MOVE = re.compile(r"\x1b\[[0-9;]{0,9}[A-Ha-hJj]")


class Progress(NamedTuple):
    """How far a training is, as its log tells; None where the log does not say."""

    step: Optional[int] = None
    total: Optional[int] = None
    epoch: Optional[float] = None
    epochs: Optional[int] = None
    loss: Optional[float] = None
    metrics: Dict[str, float] = {}
    rate_per_s: Optional[float] = None
    eta_s: Optional[float] = None  # as of seen_at
    seen_at: Optional[float] = None
    eta_of: str = ""  # "run", or "epoch" when only the end of this pass can be foretold
    restarts: int = 0  # how often the step fell back, as after a resume


class Counter(NamedTuple):
    """One counter of a log: the earliest reading, the last one, and how many there were."""

    first: int
    last: int
    sights: int
    first_epoch: Optional[float] = None  # the epoch of the earliest reading, where one was named by then


class ProgressReader:
    """Takes log text as it comes; `now` tells what it says so far."""

    def __init__(self, pattern: str = "auto") -> None:
        """Read by guessing (auto), not at all (none), or by a regex with groups step[, total, loss, epoch]."""
        self._off = pattern == "none"
        self._user = None if pattern in ("auto", "none") else user_pattern(pattern)
        self._held = ""
        self._counters = _Counters()
        self._last = Sight()  # the training's newest
        self._epochs = _Epochs()
        self._pace = _Pace()
        self._loss: Optional[float] = None
        self._loss_rank = ANY_LOSS
        self._history = LossHistory()
        self._metrics: OrderedDict[str, float] = OrderedDict()
        self._seen_at: Optional[float] = None
        self._restarts = 0

    def feed(self, text: str, at: Optional[float] = None) -> None:
        """Take text seen at a monotonic time; None says that it is old, so that its steps give no rate."""
        for start in range(0, 0 if self._off else len(text), _SLICE_CHARS):
            piece = text[start : start + _SLICE_CHARS].replace("\r", "\n")
            done, newline, rest = (self._held + (piece if self._user else piece.lower())).rpartition("\n")
            self._held = rest[:_LINE_CHARS]
            lines = done.split("\n") if self._user else worth_reading(done, _LINE_CHARS)
            for line in lines if newline else ():
                self._read(line, at)

    @property
    def now(self) -> Progress:
        """What the log has said so far."""
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
        """The key of the counter that is the training's; empty until one is known."""
        return self._counters.main.key if self._counters.main is not None else ""

    @property
    def counters(self) -> Dict[str, Counter]:
        """Every counter of the log by its key, but those of validation, loading and the like."""
        return self._counters.all

    @property
    def first_epoch(self) -> Optional[float]:
        """The lowest epoch that a line of the training named."""
        return self._epochs.lowest

    @property
    def losses(self) -> List[float]:
        """The loss over the whole run, in at most LossHistory.POINTS means."""
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
        if sight.side or (sight.step is not None and not self._take_step(sight, at)):
            return
        if sight.step is None:
            self._epochs.take(sight)
        if sight.loss is not None and sight.loss_rank <= self._loss_rank:
            self._loss, self._loss_rank, self._seen_at = sight.loss, sight.loss_rank, at
            self._history.add(sight.loss)
            self._counters.main_has_loss()

    def _take_step(self, sight: Sight, at: Optional[float]) -> bool:
        """Move the sight's track; tell whether that is the training's."""
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

    def _take_beside(self, track: _Track, main: _Track, sight: Sight) -> bool:
        """Learn the epoch from another counter; tell whether a loss beside it is the training's."""
        if track.counts_epochs:
            self._epochs.take(sight)
            return self._last.loss is None
        if track.surrounds(main):
            self._epochs.take_loop(track)
        return False

    def _advance(self, track: _Track, before: int, sight: Sight, at: Optional[float]) -> None:
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
    """The whole run's loss in a bounded number of points: when full, neighbours become their mean."""

    POINTS = 256

    def __init__(self) -> None:
        self.points: List[float] = []
        self._stride, self._sum, self._count = 1, 0.0, 0

    def add(self, loss: float) -> None:
        """Take one loss; NaN or infinity stays visible as NaN in its point."""
        self._sum += loss if math.isfinite(loss) else math.nan
        self._count += 1
        if self._count < self._stride:
            return
        self.points.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self.points) >= self.POINTS:
            self.points = [(first + second) / 2 for first, second in zip(self.points[::2], self.points[1::2])]
            self._stride *= 2


class _Track:
    """One counter of the log and what is known about it."""

    def __init__(self, sight: Sight, born: int) -> None:
        self.key, self.is_loop, self.total = sight.track, sight.is_loop, sight.total
        self.born = born
        self.counts_epochs = sight.track == "epoch"
        self.step, self.sights, self.sure, self.has_loss = -1, 0, False, False
        self.earliest: Optional[Tuple[float, int]] = None  # epoch (-1: none named) and step
        self.rises = 0  # since another counter last began again
        self.steady = False  # rose twice in a row; an outer loop rises once per pass of the inner one

    def rank(self) -> Tuple[bool, bool, bool, bool, int, int]:
        """The training is steady, shows a loss, is no loop of epochs, has an end, is long, and moves often."""
        return (self.steady, self.has_loss, not self.is_loop, self.total is not None, self.total or 0, self.sights)

    def move(self, sight: Sight, epoch: Optional[float]) -> None:
        """Take the new step."""
        step = sight.step or 0
        at = (-1.0 if epoch is None else epoch, step)
        if self.earliest is None or at < self.earliest or (sight.sure and not self.sure):
            self.earliest = at  # "found a checkpoint of step 3" is forgotten at the first "step 1/6"
        if step > self.step >= 0:
            self.rises += 1
            self.steady = self.steady or self.rises >= 2
        self.step, self.sights, self.sure = step, self.sights + 1, self.sure or sight.sure
        self.total = self.total if sight.total is None else sight.total

    def counter(self, earliest: Tuple[float, int]) -> Counter:
        """Show it to others."""
        epoch, step = earliest
        return Counter(step, self.step, self.sights, None if epoch < 0 else epoch)

    def surrounds(self, main: _Track) -> bool:
        """Whether this is the loop of epochs around the training."""
        older = self.born < main.born and (self.total or 0) < (main.total or 0)
        return self.total is not None and (self.is_loop or (older and not self.steady))


class _Moved(NamedTuple):
    """A track and where it was."""

    track: _Track
    before: int


class _Counters:
    """All tracks of a log, and which one is the training."""

    def __init__(self) -> None:
        self.main: Optional[_Track] = None
        self._tracks: OrderedDict[str, _Track] = OrderedDict()
        self._sights = 0
        self._elsewhere = 0  # sights since the training last moved

    @property
    def all(self) -> Dict[str, Counter]:
        """Every track that was moved, by its key."""
        return {track.key: track.counter(track.earliest) for track in self._tracks.values() if track.earliest}

    def move(self, sight: Sight, epoch: Optional[float]) -> Optional[_Moved]:
        """Move the track of this sight and choose again; None when the sight is not to be believed."""
        self._sights += 1
        track = self._tracks.pop(sight.track, None) or _Track(sight, self._sights)
        self._tracks[sight.track] = track
        if len(self._tracks) > _MAX_TRACKS:
            self._tracks.popitem(last=False)
        if track.sure and not sight.sure:
            return None  # "next evaluation at step 5000" among real steps
        before = track.step
        track.move(sight, epoch)
        for other in self._tracks.values():
            if other is not track and track.step < before:
                other.rises = 0
            # A line that prints the loss at a bar's step speaks of that bar.
            if sight.loss is not None and (other is track or (other.total and other.step == track.step > 1)):
                other.has_loss = True
        self._choose(track)
        return _Moved(track, before)

    def main_has_loss(self) -> None:
        """Note that the training printed its loss apart from its counter."""
        if self.main is not None:
            self.main.has_loss = True

    def _choose(self, moved: _Track) -> None:
        self._elsewhere = 0 if moved is self.main else self._elsewhere + 1
        if self._elsewhere > _STALE_SIGHTS and self.main is not None:
            self._tracks.pop(self.main.key, None)
        likely = [track for track in self._tracks.values() if track.sure or track.rises]
        best = max(likely, key=_Track.rank) if likely else None
        if best is not self.main:
            self.main, self._elsewhere = best, 0


class _Epochs:
    """Which epoch it is, and whether steps count within one."""

    def __init__(self) -> None:
        self.epoch: Optional[float] = None
        self.epochs: Optional[int] = None
        self.lowest: Optional[float] = None
        self._from_zero = False
        self._starts_again: Optional[bool] = None  # the step, with each epoch
        self._at_last_step: Optional[float] = None

    def take(self, sight: Sight) -> None:
        """Note the epoch that a line of the training names."""
        self.epoch = self.epoch if sight.epoch is None else sight.epoch
        self.epochs = self.epochs if sight.epochs is None else sight.epochs
        if sight.epoch is not None:
            self.lowest = sight.epoch if self.lowest is None else min(self.lowest, sight.epoch)
        self._from_zero = self._from_zero or sight.epoch == 0

    def take_loop(self, track: _Track) -> None:
        """Note the epoch from the bar of the outer loop, which counts those that are over."""
        self.epoch, self.epochs = float(min(track.step + 1, track.total or 0)), track.total

    def moved(self, track: _Track, before: int) -> bool:
        """Take a step of the training; tell whether it began a new pass."""
        rose = self._at_last_step is not None and (self.epoch or 0.0) > self._at_last_step
        self._at_last_step = self.epoch
        if track.step >= before:
            self._starts_again = False if rose and before >= 0 else self._starts_again
            return False
        full = track.total is not None and before >= 0.9 * track.total and track.step <= 0.1 * track.total
        self._starts_again = True if rose or full else self._starts_again
        return rose or full

    def inside(self, sight: Sight) -> bool:
        """Whether the step counts within the epoch, as far as is known."""
        if self._starts_again is not None:
            return self._starts_again
        return self.epochs is not None or (sight.epoch is not None and sight.epoch.is_integer())

    @property
    def remaining(self) -> Optional[float]:
        """How many epochs come after this one."""
        if self.epochs is None or self.epoch is None:
            return None
        return max(0.0, self.epochs - self.epoch - self._from_zero)


class _Pace:
    """Steps per second, over the last thirty-two moments at least a second apart."""

    def __init__(self) -> None:
        self._samples: Deque[Tuple[float, int]] = deque(maxlen=32)
        self._travelled = 0
        self._newest = self._settled_at = 0.0

    def add(self, steps: int, at: Optional[float]) -> None:
        """Take steps done by now; those of the first second may have been written long before we looked."""
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
        """The rate, or None until a second has passed."""
        if not self._samples or self._newest - self._samples[0][0] < 1:
            return None
        return (self._travelled - self._samples[0][1]) / (self._newest - self._samples[0][0]) or None
