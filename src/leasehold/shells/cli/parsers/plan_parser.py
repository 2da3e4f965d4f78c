"""Parsers of what is asked before money is spent: plan, fetch, platforms."""

from __future__ import annotations

from .front_parser import AddVerb


def add_plan_parsers(verb: AddVerb) -> None:
    """Describe plan, fetch and platforms."""
    plan = verb(
        "plan",
        "what a job would do, cost and risk on each candidate: paths, verbs, cadence, cost, clocks as dates",
        "  lease plan                                    the job's candidates side by side\n"
        "  lease plan lease.yaml --on autodl --on runpod --price 1.98USD/h --balance 50USD\n"
        "  lease plan --on vastai --spot --interrupted-every 3h",
    )
    plan.add_argument("job", nargs="?", default="lease.yaml", help="job file (default: lease.yaml)")
    plan.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="WHERE",
        help="a box, ssh:HOST, a platform, or `all`; repeatable",
    )
    plan.add_argument("--price", default="", metavar="P", help="what an hour costs, such as 1.98USD/h")
    plan.add_argument("--balance", default="", metavar="M", help="what the account holds, such as 50USD")
    plan.add_argument(
        "--verb", default="", metavar="V", help="how you intend to end it (default: what stops the meter)"
    )
    plan.add_argument("--spot", action="store_true", help="plan for capacity that can be taken away")
    plan.add_argument("--root", default="", metavar="DIR", help="our folder on the box (default: as lease run has it)")
    plan.add_argument("--bandwidth", default="", metavar="R", help="the line home (default: 50Mbit/s)")
    plan.add_argument(
        "--interrupted-every", default="", metavar="D", help="mean time between interruptions (else: 3h spot, 24h not)"
    )
    plan.add_argument(
        "--cards", type=int, default=0, metavar="N", help="how many cards the box has (a sweep's cells share them)"
    )
    plan.add_argument("--from", dest="at", default="", metavar="DATE", help="count clocks from this day (default: now)")
    plan.add_argument("--full", action="store_true", help="every detail of every candidate")
    fetch = verb(
        "fetch",
        "have a box fetch the job's downloads and do nothing else: cheap on a box without its card",
        "  lease fetch --on gpu1              then switch the card on, and: lease run --on gpu1",
    )
    fetch.add_argument("job", nargs="?", default="lease.yaml", help="job file (default: lease.yaml)")
    fetch.add_argument("--on", required=True, metavar="BOX", help="which box")
    fetch.add_argument("--root", default="", metavar="DIR", help="our folder on the box")
    fetch.add_argument("--platform", default="", metavar="ID", help="with --on ssh:…: whose rules hold there")
    fetch.add_argument("--price", default="", metavar="P", help="what an hour costs in this mode")
    fetch.add_argument("--detach", "-d", action="store_true", help="return once it is under way")
    platforms = verb(
        "platforms",
        "what is known of each platform, with sources: what stops the meter, what that deletes, which clocks tick",
        "  lease platforms\n  lease platforms show autodl\n  lease platforms check   stale or unconfirmed facts",
    )
    platforms.add_argument("action", nargs="?", default="list", choices=("list", "show", "check"))
    platforms.add_argument("name", nargs="*", help="show: the platform; check: those platforms only")
