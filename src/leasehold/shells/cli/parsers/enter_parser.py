"""Options of ssh, exec and tunnel."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import RUN, add_run, examples


def ssh(parser: ArgumentParser) -> None:
    """lease ssh"""
    parser.description = "Open a shell on a box, or in the folder of a run on its box; after --, run a command there."
    examples(parser, "  lease ssh gpu1\n  lease ssh myjob -- tail -f cells/main/attempt-0001/log")
    parser.add_argument("run", metavar="RUN|BOX", help=f"{RUN}; or a saved box")
    parser.add_argument("words", nargs="*", metavar="CMD", help="after --: the command that the shell there runs")


def execute(parser: ArgumentParser) -> None:
    """lease exec"""
    parser.description = (
        "Run a command in a run's working folder with its trainer's environment; without a command, a shell."
    )
    examples(
        parser,
        "  lease exec myjob -- python -c 'import torch; print(torch.__version__)'\n  lease exec --cell lr-0.1 mysweep",
    )
    add_run(parser)
    parser.add_argument("words", nargs="*", metavar="CMD", help="after --: the command and its arguments")
    parser.add_argument("--cell", default="", metavar="CELL", help="the cell of a sweep (default: the first)")


def tunnel(parser: ArgumentParser) -> None:
    """lease tunnel"""
    parser.description = (
        "Forward a port of the box (TensorBoard: 6006, Jupyter: 8888) and check that the panel shows the run."
    )
    examples(parser, "  lease tunnel myjob 6006")
    add_run(parser)
    parser.add_argument("port", nargs="?", default="6006", metavar="PORT", help="the port on the box (default: 6006)")
    parser.add_argument(
        "--local-port", type=int, default=0, metavar="N", help="the port on this machine (default: a free one)"
    )
    parser.add_argument("--once", action="store_true", help="check the panel, then close the tunnel")
