"""Options of the k8s commands."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_job, examples

_ON = "the cluster: k8s:CONTEXT or k8s:CONTEXT/NAMESPACE"


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
    parser.add_argument("--on", required=True, metavar="WHERE", help=_ON)
    parser.add_argument("--to", default="", metavar="FILE", help="write them to this file")


def rights(parser: ArgumentParser) -> None:
    """lease k8s rights"""
    parser.description = (
        "Ask the cluster whether your account may do what a run of this job needs, and print the smallest\n"
        "Role that suffices. Applies nothing."
    )
    examples(parser, "  lease k8s rights --on k8s:lab/team-a              exit 3 when a right is missing")
    add_job(parser)
    parser.add_argument("--on", required=True, metavar="WHERE", help=_ON)
