"""Options of move."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_root, add_run, examples


def move(parser: ArgumentParser) -> None:
    """lease move"""
    parser.description = (
        "Continue a run on another box. The new box passes its gates first; then the run is stopped where it\n"
        "is, with a last save, and fenced there; its newest state that is whole is laid onto the new box, hashed\n"
        "on arrival. The same command again continues a move that was cut off."
    )
    examples(
        parser,
        "  lease move myjob --to gpu2\n"
        "  lease move myjob --to ssh:root@1.2.3.4:2222 --price 1.98USD/h --detach\n"
        "  lease move myjob --to gpu2 --rehearse      what it would resume from and lose; changes nothing",
    )
    add_run(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="BOX",
        help="local, the name of a saved box, or an address as lease run --on takes it",
    )
    parser.add_argument(
        "--platform", default="", metavar="ID", help="with --to ssh:…: the platform of the box; remembered"
    )
    add_root(parser)
    parser.add_argument("--price", default="", metavar="1.98USD/h", help="what an hour of the new box costs")
    parser.add_argument(
        "--grace", default="30s", metavar="D", help="time for the last save on the box that is left (default: 30s)"
    )
    parser.add_argument("--from-start", action="store_true", help="begin at step 0 if no state is found anywhere")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="show what it would resume from and lose; reads that state, changes nothing",
    )
    parser.add_argument("--detach", "-d", action="store_true", help="return once the run is seen alive on the new box")
    parser.add_argument(
        "--skip-gate", action="append", default=[], metavar="NAME",
        help="skip a gate of the new box (audit, env, smoke or launch); needs --because, and is recorded; repeatable",
    )  # fmt: skip
    parser.add_argument("--because", default="", metavar="WHY", help="why a gate is skipped")
