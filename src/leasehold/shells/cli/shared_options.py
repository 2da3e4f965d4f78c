"""Options that several commands take."""

from __future__ import annotations

from argparse import ArgumentParser

RUN = "a run: its id, the beginning of its id, or its job's name"
BOX = "a saved box, or an address as --on takes it"


def examples(parser: ArgumentParser, text: str) -> None:
    """Show examples below the options, as they are written."""
    parser.epilog = ("examples:\n" if "\n" in text else "example:\n") + text


def add_run(parser: ArgumentParser) -> None:
    """Add the run that the command is about."""
    parser.add_argument("run", metavar="RUN", help=RUN)


def add_job(parser: ArgumentParser) -> None:
    """Add the job file that the command is about."""
    parser.add_argument("job", nargs="?", default="lease.yaml", metavar="JOB", help="job file (default: lease.yaml)")


def add_root(parser: ArgumentParser) -> None:
    """Add the folder on a box that leasehold owns."""
    parser.add_argument(
        "--root", default="", metavar="DIR", help="Leasehold's folder on the box (default: ~/.leasehold there)"
    )


def add_wait(parser: ArgumentParser) -> None:
    """Add how long to wait for a box that does not answer."""
    parser.add_argument(
        "--wait",
        dest="silence_s",
        type=float,
        default=None,
        metavar="S",
        help="seconds to wait for a silent box (default: 30 until its first answer, then minutes)",
    )


def add_facts_checked(parser: ArgumentParser) -> None:
    """Add what a person checked where the facts about a platform are in doubt."""
    parser.add_argument(
        "--facts-checked",
        default="",
        metavar="SAW",
        help="what you saw when you checked facts that are stale, unconfirmed or relaxed by a project's file",
    )
