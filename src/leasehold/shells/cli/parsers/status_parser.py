"""Options of status."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import RUN, examples

_STATES = ("planned", "running", "stopping", "finished", "failed", "stopped", "unknown", "absent")


def status(parser: ArgumentParser) -> None:
    """lease status"""
    parser.description = (
        "List runs: state, box, step, loss, time left, share of the cost, and whether the results are home."
    )
    examples(parser, "  lease status --refresh\n  lease status --live --sort eta\n  lease status --owed --box gpu1")
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help=RUN)
    parser.add_argument("--refresh", action="store_true", help="ask the boxes now; rows appear as they answer")
    parser.add_argument(
        "--wait",
        type=float,
        default=15.0,
        metavar="S",
        help="with --refresh: seconds to wait for each box (default: 15)",
    )
    parser.add_argument("--live", action="store_true", help="only runs that have not ended")
    parser.add_argument("--owed", action="store_true", help="only runs whose results are neither home nor waived")
    parser.add_argument("--box", default="", metavar="BOX", help="only runs on this box")
    parser.add_argument(
        "--state", default="", choices=_STATES, metavar="STATE", help=f"only runs in this state: {', '.join(_STATES)}"
    )
    parser.add_argument(
        "--sort",
        default="",
        choices=("newest", "eta", "loss", "name", "box", "state"),
        metavar="BY",
        help="newest (default), eta, loss, name, box or state (live ones first); with --refresh, rows appear last",
    )
