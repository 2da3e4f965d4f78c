"""Parser of status."""

from __future__ import annotations

from .front_parser import AddVerb

_STATES = ("planned", "running", "stopping", "finished", "failed", "stopped", "unknown", "absent")


def add_status_parser(verb: AddVerb) -> None:
    """Describe what a person may ask of the list of runs."""
    status = verb(
        "status",
        "list runs: state, box, step, loss, time left, its share of the cost, and whether its results are home",
        "  lease status --refresh\n  lease status --live --sort eta\n  lease status --owed --box gpu1",
    )
    status.add_argument("run", nargs="?", default="", help="one run (id, its beginning, or the job's name)")
    status.add_argument("--refresh", action="store_true", help="ask the boxes now; rows come as they answer")
    status.add_argument(
        "--wait", type=float, default=15.0, metavar="S", help="with --refresh: give each box so long (default: 15)"
    )
    status.add_argument("--live", action="store_true", help="only runs that have not ended")
    status.add_argument("--owed", action="store_true", help="only runs with nothing at home and nothing given up")
    status.add_argument("--box", default="", metavar="BOX", help="only runs on this box")
    status.add_argument("--state", default="", choices=_STATES, metavar="STATE", help=f"only: {', '.join(_STATES)}")
    status.add_argument(
        "--sort",
        default="",
        choices=("newest", "eta", "loss", "name", "box", "state"),
        metavar="BY",
        help="newest (default), eta, loss, name, box or state (live ones first); with --refresh, rows come at the end",
    )
