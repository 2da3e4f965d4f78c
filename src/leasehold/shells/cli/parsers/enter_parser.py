"""Parsers of ssh and exec."""

from __future__ import annotations

from .front_parser import AddVerb


def add_enter_parsers(verb: AddVerb) -> None:
    """Describe the commands that put a person on a box."""
    ssh = verb(
        "ssh",
        "open a shell on a box, or in the folder of a run on its box; with -- run a command there",
        "  lease ssh gpu1\n  lease ssh myjob -- tail -f cells/main/attempt-0001/log",
    )
    ssh.add_argument("run", metavar="RUN|BOX", help="a run (id, its beginning, or the job's name) or a box")
    ssh.add_argument("words", nargs="*", metavar="CMD", help="after --: what the shell there runs")
    within = verb(
        "exec",
        "run a command in a run's working folder with its trainer's environment; without one, a shell",
        "  lease exec myjob -- python -c 'import torch; print(torch.__version__)'\n  lease exec --cell lr-0.1 mysweep",
    )
    within.set_defaults(command="execute")
    within.add_argument("run", help="a run (id, its beginning, or the job's name)")
    within.add_argument("words", nargs="*", metavar="CMD", help="after --: the command and its words")
    within.add_argument("--cell", default="", metavar="CELL", help="which cell of a sweep (default: the first)")
