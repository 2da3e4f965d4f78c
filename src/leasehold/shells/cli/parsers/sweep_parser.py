"""The parser of sweep."""

from __future__ import annotations

from argparse import ArgumentParser

from .front_parser import AddVerb

FORMATS = ("text", "csv", "markdown", "parquet")


def add_sweep_parser(verb: AddVerb) -> None:
    """Describe sweep."""
    sweep = verb(
        "sweep",
        "the cells of a sweep: what is promised, how each stands, what is owed, what they measured",
        "  lease sweep plan                          the cells of ./lease.yaml and the parameters that differ\n"
        "  lease sweep status myjob                  a word for every cell, asked of every box now\n"
        "  lease sweep reconcile myjob               what is owed, and the command that mends it; exit 3 while any is\n"
        "  lease sweep table myjob --metric val_loss:min\n"
        "  lease sweep table myjob --format parquet --out sweep.parquet\n"
        "  lease sweep plot myjob --metric val_loss --by lr -o lr.svg",
    )
    sweep.add_argument("action", choices=("plan", "status", "reconcile", "table", "plot"))
    sweep.add_argument(
        "word", nargs="?", default="", metavar="RUN|JOB", help="a run, sweep or job name; for plan: a job file"
    )
    sweep.add_argument("--offline", action="store_true", help="ask no box: what is known at home")
    sweep.add_argument(
        "--metric", action="append", default=[], metavar="NAME[:min|max]", help="the best by this; may be repeated"
    )
    sweep.add_argument("--format", choices=FORMATS, default="text", help="how the table is spelled (default: text)")
    sweep.add_argument("--by", default="", metavar="PARAM", help="plot: the parameter along the bottom")
    sweep.add_argument(
        "--out",
        "-o",
        default="",
        metavar="FILE",
        help="where a table or a picture (SVG) is written (default: shown here; Parquet needs it)",
    )


def add_sweep_options(run: ArgumentParser) -> None:
    """Describe what lease run takes for many cells and several boxes."""
    run.add_argument(
        "--move-after",
        default="10m",
        metavar="D",
        help="with several boxes: how long one may be silent until its cells go to the others (default: 10m)",
    )
    run.add_argument(
        "--bring-after",
        default="10m",
        metavar="D",
        help="of a sweep: finished cells come home once so much trained time lies on the box alone (default: 10m)",
    )
    run.add_argument(
        "--take-over",
        action="store_true",
        help="with several boxes: share out a sweep that another home has shared out so far (typed yes)",
    )
