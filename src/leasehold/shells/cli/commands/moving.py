"""The move command: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace

from leasehold.api import moving, opening, orders
from leasehold.errors import UserError
from leasehold.model.values.units import parse_duration
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens.outcome import show_outcome


def move(args: Namespace) -> int:
    """lease move"""
    order = orders.MoveOrder(
        word=args.run,
        to=args.to,
        root=args.root,
        platform=args.platform,
        price=args.price,
        grace_s=_duration(args.grace),
        detach=args.detach,
        from_start=args.from_start,
        skip_gates=tuple(args.skip_gate),
        because=args.because,
    )
    if args.rehearse:
        told = moving.rehearse(opening.open_home(), order, Screen(args.json).report)
        if args.json:
            output.as_json(told)
        else:
            output.say(f"nothing was changed. Next: lease move {told['run']} --to {told['to']}")
        return 0
    show_outcome(moving.move(opening.open_home(), order, Screen(args.json).report), args.json)
    return 0


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UserError("usage", f"--grace: {error}") from None
