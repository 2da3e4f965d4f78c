"""Whether the numbers of an attempt that has ended are worth a look; light, for cells that live for a moment."""

from __future__ import annotations

import os

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import CellState

_TAIL_BYTES = 64 << 10


def worth_a_look(folder: RunFolder, name: str, cell: CellState, followed: bool) -> bool:
    """Whether an attempt ended and nothing was made of it yet.

    A first one that nobody followed only if its log may hold NaN; of a later one it is told where it began.
    """
    if cell.state != "ended" or cell.classed == cell.attempt or cell.stage in cell.passed:
        return False
    return followed or cell.attempt > 1 or may_hold_nonfinite(os.path.join(folder.attempt(name, cell.attempt), "log"))


def may_hold_nonfinite(path: str) -> bool:
    """Look for the words in the end of a log; whether they are a loss is for others to say."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).lower()
    except OSError:
        return False
    if b"nan" not in text and b"inf" not in text:
        return False
    import re

    return re.search(rb"\b(?:nan|inf|infinity)\b", text) is not None
