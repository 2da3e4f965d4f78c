"""How long to pause before the next try: longer after each consecutive failure, up to a maximum."""

from __future__ import annotations

from typing import Sequence

LINK_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # a box that does not answer


def pause_after(failures: int, pauses_s: Sequence[float] = LINK_S) -> float:
    """Return the pause after this many consecutive failures (one or more); the last pause repeats."""
    return pauses_s[min(max(failures, 1), len(pauses_s)) - 1]
