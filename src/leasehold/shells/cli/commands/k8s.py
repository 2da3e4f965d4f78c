"""The k8s commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from leasehold.api import clusters, opening
from leasehold.model.run.verdict import Outcome
from leasehold.shells.cli import output
from leasehold.shells.cli.commands.project import show_verdict

_EXIT_REFUSED = 3


def manifest(args: Namespace) -> int:
    """lease k8s manifest"""
    made = clusters.manifest(opening.open_home(), Path(args.job), args.on)
    if args.json:
        output.as_json({"objects": made})
    elif args.to:
        Path(args.to).write_text(output.as_yaml(made), "utf-8")
        output.say(f"written: {args.to}. `lease run` creates the same objects itself and finds existing ones")
        if clusters.manifest(opening.open_home(), Path(args.job), args.on) != made:
            output.say(f"{args.to} is now part of the code, so the next run has another name than these objects:")
            output.say("  write it outside the project, or name it in .leaseignore")
    else:
        output.data(output.as_yaml(made).rstrip())
    return 0


def rights(args: Namespace) -> int:
    """lease k8s rights"""
    verdict, role = clusters.rights(opening.open_home(), Path(args.job), args.on)
    if args.json:
        output.as_json({"verdict": verdict.as_dict(), "role": role})
    else:
        show_verdict(verdict)
        output.data(output.as_yaml([role]).rstrip())
    return _EXIT_REFUSED if verdict.outcome is Outcome.REFUSED else 0
