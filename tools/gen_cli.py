"""Write docs/cli.md from the parser itself; --check fails when the page has drifted."""

from __future__ import annotations

import argparse
import os
import sys

os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"

from written import written

from leasehold.shells.cli.main import build_parser


def page() -> str:
    """Spell the page."""
    parser = build_parser()
    parts = ["# The `lease` command", "", "Generated from the parser by `make docs`.", "", _block(parser)]
    return "\n".join([*parts, *_verbs("## lease", parser)]) + "\n"


def _verbs(title: str, parser: argparse.ArgumentParser) -> list[str]:
    """Spell every command below a parser, and the commands below those."""
    parts = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                parts += ["", f"{title} {name}", "", _block(verb), *_verbs(f"#{title} {name}", verb)]
    return parts


def _block(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{parser.format_help().rstrip()}\n```"


if __name__ == "__main__":
    sys.exit(written("docs/cli.md", page()))
