"""Options of doctor and lint."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import examples


def doctor(parser: ArgumentParser) -> None:
    """lease doctor"""
    parser.description = (
        "Explain why a run died, from logs of its ranks, a run or a box. Exit 1 if something was found."
    )
    examples(
        parser,
        "  lease doctor train.log                      one log; several are the ranks of one run\n"
        "  lease doctor myjob                          a run's newest attempts, with exit codes and readings\n"
        "  dmesg | lease doctor -                      standard input\n"
        "  lease doctor U9                             explain a catalogue entry\n"
        "  lease doctor --search 显存不足              find entries by symptom, offline",
    )
    parser.add_argument("target", nargs="*", metavar="LOG|RUN|BOX|ID|-", help="what to examine")
    parser.add_argument("--search", nargs="+", default=[], metavar="WORD", help="find catalogue entries by symptom")
    parser.add_argument("--exit-code", type=int, default=None, metavar="N", help="how the process ended, if known")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="TEXT",
        help="a state or event of the scheduler or platform; repeatable",
    )
    parser.add_argument("--platform", default="", metavar="NAME", help="where it ran (autodl, runpod, vastai, …)")
    parser.add_argument("--notices", action="store_true", help="also show findings that are not failures")


def lint(parser: ArgumentParser) -> None:
    """lease lint"""
    parser.description = "Search Python sources for ten mistakes that cost training runs. Exit 1 if one was found."
    examples(parser, "  lease lint .\n  lease lint src/train.py --json")
    parser.add_argument("source", nargs="+", metavar="SRC", help="files or folders")
