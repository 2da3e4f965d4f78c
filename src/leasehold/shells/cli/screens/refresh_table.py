"""`lease status --refresh`: rows as boxes answer, and one line listing those that have not answered."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from leasehold.api import running
from leasehold.model.run.refresh_turn import FleetTurn
from leasehold.shells.cli import output

Show = Callable[[list[dict[str, Any]]], None]


def refreshed(home: Any, args: Namespace, show: Show) -> tuple[list[dict[str, Any]], FleetTurn]:
    """Ask the boxes, showing rows as they arrive; return all rows and the fleet's final state."""
    rows: list[dict[str, Any]] = []
    turn = FleetTurn(0, 0, {})
    line = _Line(quiet=args.json)
    with contextlib.closing(running.refresh(home, args.run, args.wait)) as turns:
        try:
            for told, turn in turns:
                rows += told
                if told and not args.json:
                    line.clear()
                    show(told)
                line.draw(turn)
        except KeyboardInterrupt:
            line.clear()
            output.say(f"{turn.line(500)}; what they said is kept")
            raise
    line.clear()
    if not args.json:
        _sum_up(turn)
    return rows, turn


def _sum_up(turn: FleetTurn) -> None:
    if turn.silent:
        names = ", ".join(list(turn.silent)[:5]) + (" …" if len(turn.silent) > 5 else "")
        text = f"{turn.answered} of {turn.asked} boxes answered; no answer from {names}: what runs there is unknown"
        output.say(output.paint(text, "yellow"))
    elif turn.asked > 1:
        output.say(f"{turn.answered} of {turn.asked} boxes answered")


class _Line:
    """A stderr line that is redrawn in place; nothing where stderr is not a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._live = not quiet and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = ""

    def draw(self, turn: FleetTurn) -> None:
        """Redraw the line if the fleet's state changed."""
        text = turn.line(os.get_terminal_size(sys.stderr.fileno()).columns) if self._live and turn.asked > 0 else ""
        if text != self._shown:
            self._write(f"\r\x1b[K{text}")
            self._shown = text

    def clear(self) -> None:
        """Erase the line to make room for rows."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
