"""Parsers of the commands that end something: stop, waive, harmless, down, park."""

from __future__ import annotations

import argparse

from .front_parser import AddVerb, add_wait


def add_ending_parsers(verb: AddVerb) -> None:
    """Describe the commands that end something."""
    _ending(verb)
    _parking(verb)


def _ending(verb: AddVerb) -> None:
    stop = verb(
        "stop",
        "end exactly this run's processes; the box keeps billing",
        "  lease stop myjob --grace 120",
    )
    stop.add_argument("run")
    add_wait(stop)
    stop.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds between SIGTERM and SIGKILL (default: 30)",
    )
    stop.add_argument(
        "--keep", action="store_true", help="then bring home what is there: unfinished, without a receipt"
    )
    waive = verb(
        "waive",
        "give up a cell's results: salvages what exists, then asks you to type it",
        "  lease waive myjob main\n  lease waive mysweep lr-0.1 --take-back\n  lease waive --failed gpu1",
    )
    waive.add_argument("run", help="a run; with --failed a box or a lease")
    add_wait(waive)
    waive.add_argument("cell", nargs="?", default="main")
    waive.add_argument("--failed", action="store_true", help="everything that failed there, listed, in one typed act")
    waive.add_argument("--take-back", action="store_true", help="the cell is owed again: lease run resumes it")
    harmless = verb(
        "harmless",
        "say that a process which works in a run's folders may go on there; asks you to type it",
        "  lease harmless myjob 4711",
    )
    harmless.add_argument("run")
    add_wait(harmless)
    harmless.add_argument("pid", type=int, help="as lease down --plan or lease watch names it")
    down = verb(
        "down",
        "stop the meter: only with every result home (or waived) and your approval",
        "  lease down myjob --plan            what would happen, and what stands in the way\n"
        "  lease down myjob                   type your approval on the terminal\n"
        "  lease down myjob --request ask.json && ssh-keygen -Y sign -n leasehold-approval -f KEY ask.json\n"
        "  lease down myjob --approval ask.json\n"
        "  lease down myjob --stopped         you stopped it in the console: end the count",
    )
    down.add_argument("lease", nargs="?", default="", metavar="RUN|LEASE", help="left out: lists open leases")
    down.add_argument("--verb", default="", help="which way of stopping (default: what stops the platform's meter)")
    _facts_checked(down)
    add_wait(down)
    how = down.add_mutually_exclusive_group()
    how.add_argument("--plan", action="store_true", help="print what would happen and exit")
    how.add_argument("--request", metavar="FILE", default="", help="write an approval request to sign")
    how.add_argument("--approval", metavar="FILE", default="", help="use a signed request (FILE and FILE.sig)")
    how.add_argument("--rehearsal", action="store_true", help="approve for a simulated landlord")
    how.add_argument("--stopped", action="store_true", help="record that you stopped the meter by hand")


def _facts_checked(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--facts-checked",
        default="",
        metavar="SAW",
        help="what you saw when you looked at facts that are stale, unconfirmed or relaxed by a project's file",
    )


def _parking(verb: AddVerb) -> None:
    park = verb(
        "park",
        "stop the compute meter and keep the disks, where the platform can; reversible",
        "  lease park myjob                   type your approval on the terminal\n"
        "  lease park myjob --standing 14d    for two weeks, park this box by itself after every verified result",
    )
    park.add_argument("lease", metavar="RUN|LEASE|BOX")
    _facts_checked(park)
    add_wait(park)
    what = park.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="print what would happen and exit")
    what.add_argument("--standing", default="", metavar="D", help="approve beforehand, for jobs with when_done: park")
    what.add_argument("--revoke", action="store_true", help="take the standing approval back")
