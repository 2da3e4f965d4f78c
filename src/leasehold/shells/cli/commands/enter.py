"""The ssh, exec and tunnel commands; ssh and exec pass through the remote command's output and exit code."""

from __future__ import annotations

import contextlib
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from leasehold.api import entering, front, opening
from leasehold.shells.cli import output

if TYPE_CHECKING:
    from leasehold.model.run.entered import Entered


def ssh(args: Namespace) -> int:
    """lease ssh"""
    return _done(entering.ssh(opening.open_home(), args.run, args.words, capture=args.json), args.json)


def execute(args: Namespace) -> int:
    """lease exec"""
    return _done(entering.execute(opening.open_home(), args.run, args.cell, args.words, capture=args.json), args.json)


def _done(ended: Entered, json_wanted: bool) -> int:
    if json_wanted:
        output.as_json({"where": ended.where, "code": ended.code, "stdout": ended.out, "stderr": ended.err})
    return ended.code if ended.code >= 0 else 128 - ended.code


def tunnel(args: Namespace) -> int:
    """lease tunnel"""

    def hold(port: int, kind: str, detail: str) -> None:
        if args.json:
            output.as_json({"url": f"http://127.0.0.1:{port}/", "panel": kind, "detail": detail})
        else:
            output.data(f"http://127.0.0.1:{port}/")
            output.say(f"{kind}: {detail}")
        if args.once:
            return
        output.say("Ctrl-C closes the tunnel; the run is not touched")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
        output.say("\nthe tunnel is closed")

    front.tunnel(opening.open_home(), args.run, args.port, args.local_port, hold)
    return 0
