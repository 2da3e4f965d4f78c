"""Detect trouble in a training's own numbers: a loss that is not finite, a loss that jumped, a metric that stays 0.

Counted value by value as the log prints them, for one attempt. The rules prefer a miss to a false alarm:
- Not finite: once a finite loss was seen, one value is enough; before, two in a row, and none at step 0, where bars
  print a loss that nobody has computed yet.
- Jumped (`loss_leapt`): over 5 times the median of the last 50 finite losses and over all of them, 5 in a row. Judged
  after 10 losses, and only while all of them are positive: a loss that crosses 0 has no ratio.
- Stuck at exactly 0: 20 in a row, for the loss (not if it came down to 0 in small steps) and for metrics whose worst
  value is 0. A learning rate, an epoch, a count of errors may be 0. Reported once an attempt.
A value that a bar draws again at the same step is no new value.
"""

from __future__ import annotations

import math
import re
from collections import deque
from typing import Deque, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from .alarms import ALARM, WARN, Sign

NOT_FINITE, LEAPT, ZERO, STEP_BACK = "loss_not_finite", "loss_leapt", "metric_zero", "step_back"


class Limits(NamedTuple):
    """Every threshold in one place."""

    window: int = 50
    before: int = 10  # losses before a jump is judged
    leap: float = 5.0  # times the median
    back: float = 3.0  # at or below this many times the median, the jump is over
    stays: int = 5
    calm: int = 5  # good values in a row that end an alarm
    zeros: int = 20
    small: float = 0.01  # a loss that reached 0 from below this has converged, or is rounded
    stop_after: int = 3  # losses in a row that are not finite, for on_nan: stop
    stop_after_s: float = 30.0  # or the first of them is this old


LIMITS = Limits()
_MOST_NAMES = 32
_WORST_IS_ZERO = re.compile(
    r"(?:\A|[\W_])(?:acc|accuracy|f1|m?iou|map|auc|auroc|bleu|rouge\w{0,3}|recall|precision|dice|top\W?_?[15]|psnr|ssim"
    r"|grad_norm)(?:\Z|[\W_])"
)


class Divergence:
    """Takes the numbers of one attempt in the order of its log; `kit.progress.ProgressReader` calls it."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._last: Optional[Tuple[Optional[int], float]] = None
        self._finite: Optional[Tuple[float, Optional[int]]] = None  # the last finite loss, and its step
        self._bad: Optional[Tuple[float, Optional[int]]] = None
        self.bad_row = self._good_row = 0
        self._leap = _Leap(limits)
        self._zeros: Dict[str, _Zeros] = {}

    def loss(self, value: float, step: Optional[int]) -> None:
        """Add a loss of the training."""
        if step is not None and self._last is not None and self._last[0] == step and _same(self._last[1], value):
            return
        self._last = step, value
        if not math.isfinite(value):
            if self._finite is None and step == 0:
                return
            self._bad, self.bad_row, self._good_row = (value, step), self.bad_row + 1, 0
            return
        self._finite, self.bad_row, self._good_row = (value, step), 0, self._good_row + 1
        self._leap.take(value, step)
        self._zero("loss").take(value, step)

    def metrics(self, values: Mapping[str, float], step: Optional[int]) -> None:
        """Add the other numbers of a line."""
        for name, value in values.items():
            if _WORST_IS_ZERO.search(name):
                self._zero(name).take(value, step)

    @property
    def is_bad(self) -> bool:
        """Return whether the newest losses are not finite, beyond the doubt of a first line."""
        return self.bad_row >= (1 if self._finite else 2)

    def seen(self) -> str:
        """Describe what was seen of the loss."""
        if self._bad is None:
            return "every loss is finite"
        last = "no finite one before" if self._finite is None else "the last finite one was %s" % _at(*self._finite)
        return "%s, %d in a row; %s" % (_at(*self._bad), self.bad_row, last)

    def signs(self, where: str, run: str) -> Iterator[Sign]:
        """Derive every alarm's sign from the numbers added."""
        hint = "weights saved since then may be NaN too: lease doctor %s; `on_nan: stop` ends such a cell" % run
        bad, over = self.is_bad, self.bad_row == 0 and self._good_row >= self._limits.calm
        seen = self.seen() if bad else "%d finite losses in a row" % self._good_row
        yield Sign(NOT_FINITE, where, bad, over, ALARM, _of(where, "the loss is not finite"), seen, hint)
        yield self._leap.sign(where)
        for name, zeros in self._zeros.items():
            found = zeros.sign(name, where)
            if found is not None:
                yield found

    def _zero(self, name: str) -> "_Zeros":
        if name not in self._zeros and len(self._zeros) >= _MOST_NAMES:
            self._zeros.pop(next(iter(self._zeros)))
        return self._zeros.setdefault(name, _Zeros(self._limits))


class _Leap:
    """Detects a loss that is far over its own median, and stays there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._window: Deque[float] = deque(maxlen=limits.window)
        self._base: Optional[float] = None  # the median when it jumped
        self._high = self._low = 0
        self._newest: Tuple[float, Optional[int]] = (0.0, None)
        self.holds = False

    def take(self, value: float, step: Optional[int]) -> None:
        self._newest = value, step
        if self._base is None:
            self._base = self._median_below(value)
            self._high = self._low = 0
        if self._base is None:
            self._window.append(value)
        elif value > self._limits.leap * self._base:
            self._high, self._low = self._high + 1, 0
            self.holds = self.holds or self._high >= self._limits.stays
        elif not self.holds:
            self._end(value)
        else:
            self._low = self._low + 1 if value <= self._limits.back * self._base else 0
            if self._low >= self._limits.calm:
                self._end(value)

    def sign(self, where: str) -> Sign:
        what = _of(where, "the loss leapt and stays there")
        seen = "%s; the median before was %.4g" % (_at(*self._newest), self._base or 0.0)
        hint = "the learning rate, a bad stretch of data, or a wrong resume: compare with the newest checkpoint"
        return Sign(LEAPT, where, self.holds, not self.holds, ALARM, what, seen if self.holds else "it came down", hint)

    def _median_below(self, value: float) -> Optional[float]:
        """Return the median that this value jumps over; None if there is none."""
        if len(self._window) < self._limits.before or min(self._window) <= 0 or value <= max(self._window):
            return None
        median = sorted(self._window)[len(self._window) // 2]
        return median if value > self._limits.leap * median else None

    def _end(self, value: float) -> None:
        self._base, self.holds, self._high, self._low = None, False, 0, 0
        self._window.append(value)


class _Zeros:
    """Detects a number that is exactly 0 again and again."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._row = 0
        self._stuck = self._over = False
        self._before: Optional[float] = None
        self._newest: Tuple[float, Optional[int]] = (0.0, None)

    def take(self, value: float, step: Optional[int]) -> None:
        if step is not None and step == self._newest[1] and value == self._newest[0]:
            return
        self._newest = value, step
        if value == 0:
            self._row += 1
            self._stuck = self._stuck or self._row >= self._limits.zeros
        else:
            self._row, self._before, self._over = 0, value, self._over or self._stuck

    def sign(self, name: str, where: str) -> Optional[Sign]:
        small = name == "loss" and self._before is not None and abs(self._before) < self._limits.small
        stuck = self._row >= self._limits.zeros and not small and not self._over
        if not self._stuck or not (stuck or self._row == 0):
            return None
        seen = "%d values of exactly 0 in a row" % self._row if stuck else _at(*self._newest, name=name)
        if self._before is not None and stuck:
            seen += "; before, %.4g" % self._before
        hint = "is it computed, and on the right data?"
        hint = "some trainers print 0 for a loss that is NaN" if name == "loss" else hint
        what = _of(where, "%s is stuck at 0" % name)
        return Sign(ZERO, " ".join(filter(None, (where, name))), stuck, not stuck, WARN, what, seen, hint)


def step_back(where: str, attempt: int, began: int, reached: int, unit: str, now: Optional[float]) -> Sign:
    """Format that an attempt began below what an earlier one had reached."""
    over = now is not None and now >= reached
    what = _of(where, "attempt %d began at %s %d, %d had been reached" % (attempt, unit, began, reached))
    seen = "%s %g again" % (unit, now) if over and now is not None else "more than half of the work is done again"
    hint = "did it load its checkpoint? lease check smoke --kill-check tries a resume in tiny"
    return Sign(STEP_BACK, where, not over, over, ALARM, what, seen, hint)


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def _of(where: str, what: str) -> str:
    return "%s: %s" % (where, what) if where else what


def _at(value: float, step: Optional[int], name: str = "loss") -> str:
    return "%s %.4g" % (name, value) + ("" if step is None else " at step %d" % step)
