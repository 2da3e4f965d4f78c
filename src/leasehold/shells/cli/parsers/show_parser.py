"""Options of show, run handbook and run forget."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_run, examples


def show(parser: ArgumentParser) -> None:
    """lease show"""
    parser.description = "Print everything that this home knows about a run: state, cost, results, gates and events."
    examples(parser, "  lease show myjob --json")
    add_run(parser)


def handbook(parser: ArgumentParser) -> None:
    """lease run handbook"""
    parser.description = (
        "Print a run's handbook: where everything is, and how to look at the run, resume it, stop it\n"
        "and copy its results, also without Leasehold."
    )
    examples(parser, "  lease run handbook myjob\n  lease run handbook myjob > HANDBOOK.md")
    add_run(parser)


def forget(parser: ArgumentParser) -> None:
    """lease run forget"""
    parser.description = "Remove a run from the lists; its results stay. Refused while any of it could be lost or bill."
    examples(parser, "  lease run forget myjob-0a1b2c3d4e")
    add_run(parser)
