"""Help as wide as the terminal. argparse would load shutil with its decompressors for that, in every command."""

from __future__ import annotations

import argparse
import os
import sys

_COLUMNS = 80  # of what is no terminal


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Examples stay as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return _COLUMNS
