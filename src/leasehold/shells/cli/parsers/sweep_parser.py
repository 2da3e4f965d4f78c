"""Options of sweep."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import examples

FORMATS = ("text", "csv", "markdown", "parquet")


def sweep(parser: ArgumentParser) -> None:
    """lease sweep"""
    parser.description = (
        "Show the cells of a sweep: what is promised, the state of each, what is missing, and their metrics."
    )
    examples(
        parser,
        "  lease sweep plan                          the cells of ./lease.yaml and the parameters that differ\n"
        "  lease sweep status myjob                  the state of every cell, asked of every box now\n"
        "  lease sweep reconcile myjob               missing results, and the command for each; exit 3 while any is\n"
        "  lease sweep table myjob --metric val_loss:min\n"
        "  lease sweep table myjob --format parquet --out sweep.parquet\n"
        "  lease sweep plot myjob --metric val_loss --by lr -o lr.svg",
    )
    parser.add_argument("action", choices=("plan", "status", "reconcile", "table", "plot"), help="what to show")
    parser.add_argument(
        "word", nargs="?", default="", metavar="RUN|JOB", help="a run, sweep or job name; for plan: a job file"
    )
    parser.add_argument("--offline", action="store_true", help="ask no box: show what this home knows")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME[:min|max]",
        help="table and plot: rank by this metric; repeatable",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="format of the table (default: text)")
    parser.add_argument("--by", default="", metavar="PARAM", help="plot: the parameter on the horizontal axis")
    parser.add_argument(
        "--out",
        "-o",
        default="",
        metavar="FILE",
        help="file for the table or the picture (SVG) (default: print it; Parquet needs a file)",
    )
