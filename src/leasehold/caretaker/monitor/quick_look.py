"""Decide whether the numbers of an ended attempt need a look; light, for cells that live for a moment."""

from __future__ import annotations

import os

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import CellState

_TAIL_BYTES = 64 << 10


def worth_a_look(folder: RunFolder, name: str, cell: CellState, followed: bool) -> bool:
    """Return whether an attempt has ended and its numbers need a look.

    A first one that nobody followed needs it only if its log may hold NaN; of a later one, where it began is reported.
    """
    if cell.state != "ended" or cell.classed == cell.attempt or cell.stage in cell.passed:
        return False
    return followed or cell.attempt > 1 or may_hold_nonfinite(os.path.join(folder.attempt(name, cell.attempt), "log"))


def may_hold_nonfinite(path: str) -> bool:
    """Search the end of a log for NaN and the like; whether it is a loss is judged elsewhere."""
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
