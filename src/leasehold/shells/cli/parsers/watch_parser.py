"""Options of watch and logs."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_run, examples


def watch(parser: ArgumentParser) -> None:
    """lease watch"""
    parser.description = "Follow a run's events and log to its end. Ctrl-C leaves the run running."
    examples(parser, "  lease watch myjob")
    add_run(parser)


def logs(parser: ArgumentParser) -> None:
    """lease logs"""
    parser.description = "Print a run's log, or what its patrol measured."
    examples(
        parser,
        "  lease logs -f myjob\n  lease logs --patrol --since 2h myjob     a line a minute: step, cards, disks, alarms",
    )
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines as they come")
    parser.add_argument("--cell", default="main", metavar="CELL", help="the cell (default: main)")
    parser.add_argument("--attempt", type=int, default=0, metavar="N", help="the attempt (default: the newest)")
    parser.add_argument(
        "--patrol", action="store_true", help="print what the box measured instead of the log, a line a minute"
    )
    parser.add_argument("--since", default="", metavar="2h", help="with --patrol: only the last 2h, 30min, …")
