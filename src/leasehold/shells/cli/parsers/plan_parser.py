"""Options of plan, run fetch and platforms."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_job, add_root, examples

_CLUSTER = "the cluster: k8s:CONTEXT or k8s:CONTEXT/NAMESPACE"


def plan(parser: ArgumentParser) -> None:
    """lease plan"""
    parser.description = (
        "Show what a job would do, cost and risk on each candidate: paths, ways to stop the meter,\n"
        "checkpoint cadence, cost, and deadlines as dates. Connects to nothing and changes nothing."
    )
    examples(
        parser,
        "  lease plan                                    the job's candidates side by side\n"
        "  lease plan lease.yaml --on autodl --on runpod --price 1.98USD/h --balance 50USD\n"
        "  lease plan --on vastai --spot --interrupted-every 3h",
    )
    add_job(parser)
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="WHERE",
        help="a box, ssh:HOST, a platform, or all; repeatable",
    )
    parser.add_argument("--price", default="", metavar="P", help="what an hour costs, such as 1.98USD/h")
    parser.add_argument("--balance", default="", metavar="M", help="what the account holds, such as 50USD")
    parser.add_argument(
        "--verb", default="", metavar="V", help="how you intend to end it (default: what stops the meter)"
    )
    parser.add_argument("--spot", action="store_true", help="plan for capacity that can be taken away")
    add_root(parser)
    parser.add_argument(
        "--bandwidth", default="", metavar="R", help="bandwidth from the box to this machine (default: 50Mbit/s)"
    )
    parser.add_argument(
        "--interrupted-every",
        default="",
        metavar="D",
        help="mean time between interruptions (default: 3h for spot capacity, else 24h)",
    )
    parser.add_argument(
        "--cards", type=int, default=0, metavar="N", help="number of cards of the box (the cells of a sweep share them)"
    )
    parser.add_argument(
        "--from", dest="at", default="", metavar="DATE", help="count deadlines from this day (default: now)"
    )
    parser.add_argument("--full", action="store_true", help="show every detail of every candidate")


def fetch(parser: ArgumentParser) -> None:
    """lease run fetch"""
    parser.description = "Let a box download the job's data and do nothing else: cheap on a box without its card."
    examples(parser, "  lease run fetch --on gpu1          then switch the card on, and: lease run --on gpu1")
    add_job(parser)
    parser.add_argument("--on", required=True, metavar="BOX", help="the box")
    add_root(parser)
    parser.add_argument("--platform", default="", metavar="ID", help="with --on ssh:…: the platform of the box")
    parser.add_argument("--price", default="", metavar="P", help="what an hour costs in this mode")
    parser.add_argument("--detach", "-d", action="store_true", help="return once the downloads have started")


def platforms(parser: ArgumentParser) -> None:
    """lease platforms"""
    parser.description = (
        "Show what is known about each platform, with sources: what stops the meter, what that deletes,\n"
        "and which deadlines apply."
    )
    examples(
        parser,
        "  lease platforms\n  lease platforms show autodl\n  lease platforms check   list stale or unconfirmed facts",
    )
    parser.add_argument(
        "action", nargs="?", default="list", choices=("list", "show", "check"), help="what to do (default: list)"
    )
    parser.add_argument("name", nargs="*", metavar="NAME", help="show: the platform; check: only these platforms")


def manifest(parser: ArgumentParser) -> None:
    """lease k8s manifest"""
    parser.description = (
        "Write the objects that `lease run --on k8s:…` creates: the volume claim and the Job. They hold no\n"
        "secret. Asks nothing of the cluster."
    )
    examples(
        parser,
        "  lease k8s manifest --on k8s:lab/team-a                      print them\n"
        "  lease k8s manifest --on k8s:lab/team-a --to ../gitops/toy   for a review or a GitOps repository",
    )
    add_job(parser)
    parser.add_argument("--on", required=True, metavar="WHERE", help=_CLUSTER)
    parser.add_argument("--to", default="", metavar="FILE", help="write them to this file")


def rights(parser: ArgumentParser) -> None:
    """lease k8s rights"""
    parser.description = (
        "Ask the cluster whether your account may do what a run of this job needs, and print the smallest\n"
        "Role that suffices. Applies nothing."
    )
    examples(parser, "  lease k8s rights --on k8s:lab/team-a              exit 3 when a right is missing")
    add_job(parser)
    parser.add_argument("--on", required=True, metavar="WHERE", help=_CLUSTER)
