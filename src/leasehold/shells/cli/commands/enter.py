"""What ssh and exec do: the command's own output and exit code are theirs."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from leasehold import api
from leasehold.shells.cli import output

if TYPE_CHECKING:
    from leasehold.model.run.entered import Entered


def ssh(args: Namespace) -> int:
    """lease ssh"""
    return _done(api.ssh(api.open_home(), args.run, args.words, capture=args.json), args.json)


def execute(args: Namespace) -> int:
    """lease exec"""
    return _done(api.execute(api.open_home(), args.run, args.cell, args.words, capture=args.json), args.json)


def _done(ended: Entered, json_wanted: bool) -> int:
    if json_wanted:
        output.as_json({"where": ended.where, "code": ended.code, "stdout": ended.out, "stderr": ended.err})
    return ended.code if ended.code >= 0 else 128 - ended.code
