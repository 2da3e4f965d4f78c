"""Write docs/cli.md from the table of commands and their parsers; --check fails when the page has drifted."""

from __future__ import annotations

import os
import sys

os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"

from written import written

from leasehold.shells.cli.main import parser_of
from leasehold.shells.cli.table import COMMANDS, overview


def page() -> str:
    """Format the page: the overview, then the help of every command, in the order of the table."""
    parts = [
        "# The `lease` command",
        "",
        "Generated from the commands by `make docs`.",
        "",
        _block(overview()),
    ]
    for command in COMMANDS:
        older = [f"Older name: `lease {command.old}`.", ""] if command.old else []
        parts += ["", f"## lease {command.name}", "", *older, _block(parser_of(command).format_help())]
    return "\n".join(parts) + "\n"


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    sys.exit(written("docs/cli.md", page()))
