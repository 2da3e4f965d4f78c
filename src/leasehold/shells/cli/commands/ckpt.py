"""The ckpt, cadence and refuge check commands: call the api, render its answer."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from leasehold.api import checkpoints
from leasehold.model.run.verdict import Outcome
from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago, one_line
from leasehold.shells.cli import output

_EXIT_REFUSED = 3
_NAMES = 12
_PROVEN = {True: ("yes", "green"), False: ("NO", "red"), None: ("-", "dim")}
_WORDS = {Outcome.PASSED: ("yes", "green"), Outcome.REFUSED: ("NO", "red"), Outcome.UNKNOWN: ("-", "dim")}


def ckpt(args: Namespace) -> int:
    """lease ckpt"""
    seen = checkpoints.ckpt_inspect(Path(args.path))
    refused = seen.verdict.outcome is Outcome.REFUSED
    if args.json:
        output.as_json(seen.as_dict())
        return _EXIT_REFUSED if refused else 0
    reading = seen.load.reading
    size = reading.get("bytes")
    output.data(f"{seen.path}: {reading.get('kind')}, {say_bytes(size if isinstance(size, int) else 0)}, ", end="")
    output.data(f"{reading.get('tensors')} tensors, {reading.get('numel')} numbers")
    for note in _texts(reading.get("notes")):
        if not note.lower().startswith(("finite", "not finite")):  # reported below
            output.data(f"  {note}")
    names = _texts(reading.get("keys"))
    output.data(f"  names: {', '.join(names[:_NAMES])}{' …' if len(names) > _NAMES else ''}")
    if seen.load.torch_load:
        output.data(f"  torch.load(weights_only=True): {seen.load.torch_load}")
    for finding in seen.verdict.findings:
        word, colour = _WORDS[finding.outcome]
        output.data(f"  {output.paint_data(word.rjust(3), colour)}  {finding.what}")
        if finding.hint and finding.outcome is Outcome.REFUSED:
            output.data(f"       {finding.hint}")
    return _EXIT_REFUSED if refused else 0


def cadence(args: Namespace) -> int:
    """lease run cadence"""
    found = checkpoints.cadence(
        Path(args.where) if args.where else None, write=args.write, step=args.step, gap=args.interrupted_every,
        price=args.price, spot=args.spot,
    )  # fmt: skip
    if args.json:
        output.as_json(found.as_dict())
        return 0
    steps = f" = every {found.every_steps} steps" if found.every_steps else ""
    output.data(f"save every {_said(found.every_s)}{steps}")
    output.data(f"  a save costs {_said(found.cost_s)} ({found.sources['cost_s']})")
    output.data(f"  an interruption every {ago(found.gap_s)} ({found.sources['gap_s']})")
    output.data(f"  each interruption loses {found.loss.redone_s / 60:.1f} minutes of work on average")
    day = 24 * 60 * found.loss.share
    money = "" if found.lost_per_day is None else f", {found.lost_per_day}"
    output.data(f"  a day loses {day:.1f} minutes ({100 * found.loss.share:.2f} %){money}")
    return 0


def refuge_check(args: Namespace) -> int:
    """lease refuge check"""
    found = checkpoints.refuge_check(args.where, os.environ)
    if args.json:
        output.as_json(found.as_dict())
        return 0 if found.fit else _EXIT_REFUSED
    output.data(one_line(found.where))
    for name, value in found.facts.items():
        output.data(f"  {name + ':':11}{one_line(value)}")
    for proof in found.proofs:
        word, colour = _PROVEN[proof.proven]
        output.data(f"  {output.paint_data(word.rjust(3), colour)}  {proof.what + ':':18}{one_line(proof.seen)}")
    output.data("it can be a refuge" if found.fit else "it can NOT be a refuge as it is")
    return 0 if found.fit else _EXIT_REFUSED


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _said(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 60 else ago(seconds)
