"""The counters of a log: which one is the training's, where each began, and the epochs around it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Dict, NamedTuple, Optional, Tuple

from .progress_lines import Sight

_MAX_TRACKS = 16
_STALE_SIGHTS = 2000  # a track that is silent this long while others move was not the training


class Counter(NamedTuple):
    """One counter of a log: the earliest reading, the last one, and the number of readings."""

    first: int
    last: int
    sights: int
    first_epoch: Optional[float] = None  # the epoch of the earliest reading, if one was named by then


class Track:
    """One counter of the log and what is known about it."""

    def __init__(self, sight: Sight, born: int) -> None:
        self.key, self.is_loop, self.total = sight.track, sight.is_loop, sight.total
        self.born = born
        self.counts_epochs = sight.track == "epoch"
        self.step, self.sights, self.sure, self.has_loss = -1, 0, False, False
        self.earliest: Optional[Tuple[float, int]] = None  # epoch (-1: none named) and step
        self.first: Optional[int] = None
        self.rises = 0  # since another counter last restarted
        self.steady = False  # rose twice in a row; an outer loop rises once per pass of the inner one

    def rank(self) -> Tuple[bool, bool, bool, bool, int, int]:
        """Rank the track: the training is steady, has a loss, is no loop of epochs, has an end, is long and busy."""
        return (self.steady, self.has_loss, not self.is_loop, self.total is not None, self.total or 0, self.sights)

    def move(self, sight: Sight, epoch: Optional[float]) -> None:
        """Apply the new step."""
        step = sight.step or 0
        at = (-1.0 if epoch is None else epoch, step)
        if self.earliest is None or at < self.earliest or (sight.sure and not self.sure):
            self.earliest = at  # "found a checkpoint of step 3" is dropped at the first "step 1/6"
        drawn = step == 0 and sight.total is not None and sight.loss is None  # a bar, before its first step
        if self.first is None and sight.sure and not drawn:
            self.first = step
        if step > self.step >= 0:
            self.rises += 1
            self.steady = self.steady or self.rises >= 2
        self.step, self.sights, self.sure = step, self.sights + 1, self.sure or sight.sure
        self.total = self.total if sight.total is None else sight.total

    def counter(self, earliest: Tuple[float, int]) -> Counter:
        """Return it as a public Counter."""
        epoch, step = earliest
        return Counter(step, self.step, self.sights, None if epoch < 0 else epoch)

    def surrounds(self, main: Track) -> bool:
        """Return whether this is the loop of epochs around the training."""
        older = self.born < main.born and (self.total or 0) < (main.total or 0)
        return self.total is not None and (self.is_loop or (older and not self.steady))


class Moved(NamedTuple):
    """A track and its previous position."""

    track: Track
    before: int


class Counters:
    """All tracks of a log, and the choice of the training among them."""

    def __init__(self) -> None:
        self.main: Optional[Track] = None
        self._tracks: OrderedDict[str, Track] = OrderedDict()
        self._sights = 0
        self._elsewhere = 0  # sights since the training last moved

    @property
    def all(self) -> Dict[str, Counter]:
        """Return every track that was moved, by its key."""
        return {track.key: track.counter(track.earliest) for track in self._tracks.values() if track.earliest}

    def move(self, sight: Sight, epoch: Optional[float]) -> Optional[Moved]:
        """Move the track of this sight and choose again; None if the sight is implausible."""
        self._sights += 1
        track = self._tracks.pop(sight.track, None) or Track(sight, self._sights)
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
            # A line that prints the loss at a bar's step belongs to that bar.
            if sight.loss is not None and (other is track or (other.total and other.step == track.step > 1)):
                other.has_loss = True
        self._choose(track)
        return Moved(track, before)

    def main_has_loss(self) -> None:
        """Note that the training printed its loss apart from its counter."""
        if self.main is not None:
            self.main.has_loss = True

    def _choose(self, moved: Track) -> None:
        self._elsewhere = 0 if moved is self.main else self._elsewhere + 1
        if self._elsewhere > _STALE_SIGHTS and self.main is not None:
            self._tracks.pop(self.main.key, None)
        likely = [track for track in self._tracks.values() if track.sure or track.rises]
        best = max(likely, key=Track.rank) if likely else None
        if best is not self.main:
            self.main, self._elsewhere = best, 0


class Epochs:
    """The current epoch, and whether steps count within one."""

    def __init__(self) -> None:
        self.epoch: Optional[float] = None
        self.epochs: Optional[int] = None
        self.lowest: Optional[float] = None
        self.first: Optional[float] = None
        self._from_zero = False
        self._starts_again: Optional[bool] = None  # the step restarts with each epoch
        self._at_last_step: Optional[float] = None

    def take(self, sight: Sight) -> None:
        """Note the epoch that a line of the training names."""
        self.epoch = self.epoch if sight.epoch is None else sight.epoch
        self.first = self.epoch if self.first is None else self.first
        self.epochs = self.epochs if sight.epochs is None else sight.epochs
        if sight.epoch is not None:
            self.lowest = sight.epoch if self.lowest is None else min(self.lowest, sight.epoch)
        self._from_zero = self._from_zero or sight.epoch == 0

    def take_loop(self, track: Track) -> None:
        """Note the epoch from the bar of the outer loop, which counts finished epochs."""
        self.epoch, self.epochs = float(min(track.step + 1, track.total or 0)), track.total

    def moved(self, track: Track, before: int) -> bool:
        """Apply a step of the training; return whether it began a new pass."""
        rose = self._at_last_step is not None and (self.epoch or 0.0) > self._at_last_step
        self._at_last_step = self.epoch
        if track.step >= before:
            self._starts_again = False if rose and before >= 0 else self._starts_again
            return False
        full = track.total is not None and before >= 0.9 * track.total and track.step <= 0.1 * track.total
        self._starts_again = True if rose or full else self._starts_again
        return rose or full

    def inside(self, sight: Sight) -> bool:
        """Return whether the step counts within the epoch, as far as is known."""
        if self._starts_again is not None:
            return self._starts_again
        return self.epochs is not None or (sight.epoch is not None and sight.epoch.is_integer())

    @property
    def remaining(self) -> Optional[float]:
        """Return how many epochs come after this one."""
        if self.epochs is None or self.epoch is None:
            return None
        return max(0.0, self.epochs - self.epoch - self._from_zero)
