"""Parsers of the doctor: doctor and lint."""

from __future__ import annotations

from .front_parser import AddVerb


def add_doctor_parsers(verb: AddVerb) -> None:
    """Describe the commands that explain failures and find them in source."""
    doctor = verb(
        "doctor",
        "say why a run died: from a log, a folder of rank logs, a run or a box; exit 1 when something was found",
        "  lease doctor train.log                      one log; several are the ranks of one run\n"
        "  lease doctor myjob                          a run's newest attempts, with exit codes and readings\n"
        "  dmesg | lease doctor -                      whatever is piped in\n"
        "  lease doctor U9                             explain a catalogue entry\n"
        "  lease doctor --search 显存不足              find entries by symptom, offline",
    )
    doctor.add_argument("target", nargs="*", metavar="LOG|RUN|BOX|ID|-", help="what to look at")
    doctor.add_argument("--search", nargs="+", default=[], metavar="WORD", help="find entries by symptom")
    doctor.add_argument("--exit-code", type=int, default=None, metavar="N", help="how the process ended, if you know")
    doctor.add_argument(
        "--state", action="append", default=[], metavar="TEXT", help="a scheduler's or platform's state or event"
    )
    doctor.add_argument("--platform", default="", metavar="NAME", help="where it ran (autodl, runpod, vastai, …)")
    doctor.add_argument("--notices", action="store_true", help="also show what is worth knowing but no failure")
    lint = verb(
        "lint",
        "read Python sources for ten mistakes that cost training runs; exit 1 when one was found",
        "  lease lint .\n  lease lint src/train.py --json",
    )
    lint.add_argument("source", nargs="+", metavar="SRC", help="files or folders")
