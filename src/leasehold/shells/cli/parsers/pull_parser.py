"""Options of pull and verify."""

from __future__ import annotations

from argparse import ArgumentParser

from .shared_options import add_run, add_wait, examples


def pull(parser: ArgumentParser) -> None:
    """lease pull"""
    parser.description = (
        "Copy a run's results home and verify them by hash and by loading them; an interrupted copy continues.\n"
        "Of a live run, copy what is finished."
    )
    examples(parser, "  lease pull myjob\n  lease pull myjob --limit-rate 10MB")
    add_run(parser)
    add_wait(parser)
    parser.add_argument("--limit-rate", default="", metavar="10MB", help="use at most this many bytes per second")


def verify(parser: ArgumentParser) -> None:
    """lease verify"""
    parser.description = "Read the home copy again and compare it with its receipt. Needs no box."
    examples(parser, "  lease verify myjob")
    add_run(parser)
