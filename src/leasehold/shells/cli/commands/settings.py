"""The notify and signer commands: call the api, render its answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from leasehold.api import notifying, opening, signing
from leasehold.errors import UserError
from leasehold.model.values.wording import one_line, utc_minute
from leasehold.shells.cli import output

_ASK = "-"  # a missing value, to be asked for


def notify(args: Namespace) -> int:
    """lease notify"""
    return {"add": _add, "list": _list_channels, "remove": _remove, "test": _test, "kinds": _kinds}[args.action](args)


def _add(args: Namespace) -> int:
    if not args.what:
        hint = "lease notify add ntfy https://ntfy.sh/TOPIC; every kind: lease notify kinds"
        raise UserError("notify.usage", "add needs a kind of channel", hint=hint)
    kind, *words = args.what
    kept = notifying.notify_add(opening.open_home(), kind, _fields(kind, words), args.name)
    if args.json:
        output.as_json(kept)
    else:
        output.say(f"kept: {_label(kept)} {kept['address']}; try it: lease notify test")
    return 0


def _fields(kind: str, words: list[str]) -> dict[str, str]:
    """Parse URL and FIELD=VALUE; ask for missing ones, secrets without echo."""
    kinds = {item["kind"]: item["fields"] for item in notifying.notify_kinds()}
    fields: list[dict[str, Any]] = kinds.get(kind, [])
    named = {field["name"]: field for field in fields}
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in named:
            name, value = "url", word  # an address may itself contain =
        field = named.get(name)
        if field and field["secret"] and name != "url" and value != _ASK and not value.startswith("env:"):
            hint = f"leave {name} out to be asked for it, or give {name}=env:NAME_OF_A_VARIABLE"
            raise UserError("notify.secret_in_argv", f"{name} is a secret: others can read command lines", hint=hint)
        values[name] = value
    for name, field in named.items():
        wanted = field["needed"] or (field["secret"] and not words)  # a person who types fields knows which
        if values.get(name) == _ASK or (name not in values and wanted and _can_ask()):
            values[name] = _ask(field)
    return values


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(field: dict[str, Any]) -> str:
    if not _can_ask():
        return sys.stdin.readline().strip()
    import getpass

    prompt = f"{field['name']} ({field['what']}{'' if field['needed'] else '; empty for none'}): "
    return getpass.getpass(prompt) if field["secret"] else input(prompt)


def _label(channel: dict[str, str]) -> str:
    same = channel["name"] == channel["kind"]
    return channel["kind"] if same else f"{channel['name']} ({channel['kind']})"


def _remove(args: Namespace) -> int:
    if len(args.what) != 1:
        raise UserError("notify.usage", "remove needs the channel's name or number", hint="lease notify list")
    gone = notifying.notify_remove(opening.open_home(), args.what[0])
    output.as_json(gone) if args.json else output.say(f"forgot: {_label(gone)} {gone['address']}")
    return 0


def _test(args: Namespace) -> int:
    if len(args.what) > 1:
        raise UserError("notify.usage", "test takes one channel, or none for all", hint="lease notify list")
    tried = notifying.notify_test(opening.open_home(), "".join(args.what), args.box)
    failed = len(tried.problems)
    if args.json:
        value = {"channels": tried.channels, "sent": tried.channels - failed, "problems": list(tried.problems)}
        output.as_json({**value, "from": tried.sender, "hint": tried.hint})
        return 1 if failed else 0
    of = f"{tried.channels - failed} of " if failed else ""
    by = f", from {tried.sender}" if args.box else ""
    output.say(f"sent to {of}{tried.channels} channel{'' if tried.channels == 1 else 's'}{by}")
    output.bullets(list(tried.problems))
    if tried.hint:
        output.say(tried.hint)
    return 1 if failed else 0


def _list_channels(args: Namespace) -> int:
    found = notifying.notify_list(opening.open_home())
    if args.json:
        output.as_json({"channels": found})
        return 0
    for number, item in enumerate(found, 1):
        output.data(f"{number}  {item['name']:12} {item['kind']:8} {item['address']}")
    if not found:
        output.say("no channel yet: lease notify add ntfy https://ntfy.sh/YOUR-TOPIC; every kind: lease notify kinds")
    return 0


def _kinds(args: Namespace) -> int:
    kinds = notifying.notify_kinds()
    if args.json:
        output.as_json({"kinds": kinds})
        return 0
    for item in kinds:
        output.data(f"{item['kind']}: {item['how']}")
        for field in item["fields"]:
            marks = [word for word, on in (("needed", field["needed"]), ("secret", field["secret"])) if on]
            marks += [f"default {field['default']}"] if field["default"] else []
            output.data(f"    {field['name']:9} {field['what']}{' (' + ', '.join(marks) + ')' if marks else ''}")
    return 0


def signer(args: Namespace) -> int:
    """lease signer"""
    if args.action == "list":
        return _list_signers(args)
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


def _list_signers(args: Namespace) -> int:
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
