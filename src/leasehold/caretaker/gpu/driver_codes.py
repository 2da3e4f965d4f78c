"""The driver's Xid errors: their meanings, and which of them mean that the card, not the program, is at fault."""

from __future__ import annotations

from typing import Dict, NamedTuple


class Xid(NamedTuple):
    """One code: what happened, and whether to leave the box."""

    meaning: str
    leave: bool = False


# NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors, 2026-11).
XIDS: Dict[int, Xid] = {
    13: Xid("an illegal instruction or address in a kernel; mostly the program"),
    31: Xid("a memory page fault on the card; mostly the program reads where it may not"),
    32: Xid("a corrupted command buffer; the program, the PCIe link or the driver"),
    43: Xid("a process's work on the card was stopped; mostly the program"),
    45: Xid("the driver ended a process's work, often after another error or a kill"),
    48: Xid("a double-bit memory error that could not be corrected", leave=True),
    61: Xid("an internal breakpoint of the card's controller", leave=True),
    62: Xid("an internal halt of the card's controller", leave=True),
    63: Xid("a row of the card's memory was remapped; it takes effect after a reset"),
    64: Xid("a row of the card's memory could not be remapped", leave=True),
    69: Xid("the graphics engine met an illegal method; mostly the program"),
    74: Xid("an NVLink error", leave=True),
    79: Xid("the card has fallen off the bus", leave=True),
    92: Xid("a high rate of single-bit memory errors"),
    94: Xid("a memory error that was contained to one program; restart it from its checkpoint"),
    95: Xid("a memory error that could not be contained", leave=True),
    109: Xid("a context switch timed out; mostly the program or the driver"),
    119: Xid("the card's system processor does not answer", leave=True),
    120: Xid("the card's system processor failed", leave=True),
    121: Xid("an error of the link between chips"),
    140: Xid("an uncorrected memory error", leave=True),
    154: Xid("the card asks to be reset or replaced", leave=True),
}


def explain(code: int) -> Xid:
    """Return the meaning of a code, also of an unknown one."""
    return XIDS.get(code, Xid("see NVIDIA's Xid catalogue"))
