"""Help as wide as the terminal, without shutil, which argparse would import in every command with its decompressors."""

from __future__ import annotations

import argparse
import os
import sys

from .table import noun_overview

_COLUMNS = 80  # width when stdout is not a terminal
_NOUN_EXAMPLES = {
    "box": """

examples:
  lease box add gpu1 'ssh -p 31022 root@connect.example.com' --price 1.98USD/h
  lease box test gpu1
  lease run --on gpu1
  lease box gpu gpu1
  lease box add gpu1 'ssh -p 40022 root@connect.example.com' --replace     the port has changed
  lease box remove gpu1""",
    "landlord": """

examples:
  lease landlord login runpod
  lease offers train.yaml
  lease run train.yaml --on runpod
  lease landlord sweep                 everything that bills, and who holds it""",
}


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Help formatter that keeps examples as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def add_noun(parser: argparse.ArgumentParser, noun: str) -> None:
    """List the commands under this word, if there are any, at the end of its help."""
    if listed := noun_overview(noun):
        own = f"{parser.epilog}\n\n" if parser.epilog else ""
        parser.epilog = f"{own}commands (lease {noun} COMMAND --help):\n{listed}{_NOUN_EXAMPLES.get(noun, '')}"
        if noun in _NOUN_EXAMPLES:
            parser.usage = f"lease {noun} COMMAND [ARGUMENT ...]"


def _columns() -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return _COLUMNS
