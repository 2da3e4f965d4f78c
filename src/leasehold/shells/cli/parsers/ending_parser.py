"""Options of stop, waive, run harmless, down and park."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_facts_checked, add_run, add_wait, examples


def stop(parser: ArgumentParser) -> None:
    """lease stop"""
    parser.description = "End exactly this run's processes. The box keeps billing."
    examples(parser, "  lease stop myjob --grace 120")
    add_run(parser)
    add_wait(parser)
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds between SIGTERM and SIGKILL (default: 30)",
    )
    parser.add_argument("--keep", action="store_true", help="then copy home what exists: unfinished, without a receipt")


def waive(parser: ArgumentParser) -> None:
    """lease waive"""
    parser.description = "Give up a cell's results: salvage what exists, then ask you to type it."
    examples(
        parser,
        "  lease waive myjob main\n  lease waive mysweep lr-0.1 --take-back\n  lease waive --failed gpu1",
    )
    parser.add_argument("run", metavar="RUN", help="a run; with --failed, a box or a lease")
    add_wait(parser)
    parser.add_argument("cell", nargs="?", default="main", metavar="CELL", help="the cell (default: main)")
    parser.add_argument(
        "--failed", action="store_true", help="list everything that failed there and give it up at once"
    )
    parser.add_argument("--take-back", action="store_true", help="undo a waiver; lease run then resumes the cell")


def harmless(parser: ArgumentParser) -> None:
    """lease run harmless"""
    parser.description = (
        "Record that a process which uses a run's folders is harmless and may continue; asks you to type it."
    )
    examples(parser, "  lease run harmless myjob 4711")
    add_run(parser)
    add_wait(parser)
    parser.add_argument(
        "pid", type=int, metavar="PID", help="the process ID that lease down --plan or lease watch shows"
    )


def down(parser: ArgumentParser) -> None:
    """lease down"""
    parser.description = "Stop the meter: only with every result home (or waived) and with your approval."
    examples(
        parser,
        "  lease down myjob --plan            what would happen, and what prevents it\n"
        "  lease down myjob                   type your approval on the terminal\n"
        "  lease down myjob --request ask.json && ssh-keygen -Y sign -n leasehold-approval -f KEY ask.json\n"
        "  lease down myjob --approval ask.json\n"
        "  lease down myjob --stopped         you stopped it in the console: record that",
    )
    parser.add_argument(
        "lease", nargs="?", default="", metavar="RUN|LEASE", help="what to end; left out: list the open leases"
    )
    parser.add_argument(
        "--verb", default="", metavar="V", help="how to stop it (default: what stops the platform's meter)"
    )
    add_facts_checked(parser)
    add_wait(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--plan", action="store_true", help="print what would happen, and exit")
    how.add_argument("--request", metavar="FILE", default="", help="write an approval request to sign")
    how.add_argument("--approval", metavar="FILE", default="", help="use a signed request (FILE and FILE.sig)")
    how.add_argument("--rehearsal", action="store_true", help="approve for the simulated landlord")
    how.add_argument("--stopped", action="store_true", help="record that you stopped the meter by hand")


def park(parser: ArgumentParser) -> None:
    """lease park"""
    parser.description = "Stop the compute meter and keep the disks, where the platform can; reversible."
    examples(
        parser,
        "  lease park myjob                   type your approval on the terminal\n"
        "  lease park myjob --standing 14d    for two weeks, park this box after every verified result",
    )
    parser.add_argument("lease", metavar="RUN|LEASE|BOX", help="what to park")
    add_facts_checked(parser)
    add_wait(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="print what would happen, and exit")
    what.add_argument("--standing", default="", metavar="D", help="approve in advance, for jobs with when_done: park")
    what.add_argument("--revoke", action="store_true", help="revoke the standing approval")
