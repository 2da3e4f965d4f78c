"""How often to checkpoint: Young and Daly's interval, and the loss with it. Pure arithmetic for both ends."""

from __future__ import annotations

from typing import NamedTuple

SPOT_GAP_S = 3 * 3600.0  # assumed without measurements: capacity that is taken away
QUIET_GAP_S = 24 * 3600.0  # and boxes that are not taken away: reboots, full disks, hosts that fail


def interval_s(cost_s: float, gap_s: float) -> float:
    """Return W = sqrt(2 x mean time between interruptions x what one checkpoint costs)."""
    import math  # imported here: starting a trainer needs only this file's constants

    return math.sqrt(2.0 * gap_s * cost_s)


def whole_steps(seconds: float, step_s: float) -> int:
    """Round an interval down to whole steps; at least one. 0 if the length of a step is not known."""
    return max(1, int(seconds / step_s)) if step_s > 0 and seconds > 0 else 0


def mean_gap_s(assumed_s: float, ran_s: float, interruptions: int) -> float:
    """Blend an assumed gap, which counts as one interruption seen, with the measured ones."""
    return (assumed_s + ran_s) / (1 + interruptions)


class Loss(NamedTuple):
    """The total cost of checkpointing and interruptions."""

    share: float  # of all time
    redone_s: float  # work done again after one interruption, on average
    saving_share: float  # of all time, spent on saving


def expected_loss(every_s: float, cost_s: float, gap_s: float, restart_s: float = 0.0) -> Loss:
    """Estimate the share of time lost: saving C/W, and after each interruption half an interval and the restart."""
    if every_s <= 0 or gap_s <= 0:
        return Loss(0.0, 0.0, 0.0)
    redone_s = every_s / 2.0
    saving = cost_s / every_s
    return Loss(saving + (redone_s + restart_s) / gap_s, redone_s, saving)
