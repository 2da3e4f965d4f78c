"""How long to pause before the next try: longer after each failure in a row, up to a most."""

from __future__ import annotations

from typing import Sequence

LINK_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # a box that does not answer


def pause_after(failures: int, pauses_s: Sequence[float] = LINK_S) -> float:
    """Return the pause after so many failures in a row, one or more; the last one stays."""
    return pauses_s[min(max(failures, 1), len(pauses_s)) - 1]
