"""What `lease signer` does with the api's answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from leasehold.api import opening, signing
from leasehold.errors import UserError
from leasehold.model.values.wording import one_line, utc_minute
from leasehold.shells.cli import output


def signer(args: Namespace) -> int:
    """lease signer"""
    if args.action == "list":
        return _list(args)
    if not args.what:
        what = "the file of a public key" if args.action == "add" else "a fingerprint, a name or a line number"
        raise UserError("signer.usage", f"{args.action} needs {what}", hint="lease signer list")
    home, report = opening.open_home(), output.Screen(quiet=args.json).report
    if args.action == "add":
        options = (*(("verify-required",) if args.verify_required else ()), *(("cert-authority",) if args.ca else ()))
        entry = signing.signer_add(home, _key(args.what), args.name, options, report)
    elif args.action == "confirm":
        entry = signing.signer_confirm(home, args.what, report)
    else:
        entry = signing.signer_remove(home, args.what, report)
        if not args.json:
            output.say(f"removed: {entry.words}")
    if args.json:
        output.as_json(entry.as_dict())
    return 0


def _list(args: Namespace) -> int:
    found = signing.signer_list(opening.open_home())
    if args.json:
        output.as_json({"signers": [entry.as_dict() for entry in found]})
        return 0
    for entry in found:
        since = f"allowed since {utc_minute(entry.since_unix)}" if entry.since_unix else (
            f"NOT allowed: nobody confirmed line {entry.number}; lease signer confirm {entry.fingerprint}"
        )  # fmt: skip
        output.data(f"{entry.words}   {since}")
    if not found:
        output.say("no key may approve by a signature: lease signer add KEY.pub")
    return 0


def _key(word: str) -> str:
    try:
        return sys.stdin.read(65536) if word == "-" else Path(word).expanduser().read_text("utf-8")[:65536]
    except (OSError, ValueError) as error:
        raise UserError(
            "signer.bad_key", f"{one_line(word)}: {error}", hint="give the file that ends in .pub"
        ) from None
