"""The user's notification channels: kept in a 0600 file of this home, sent to boxes over the wire only."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leasehold.errors import HomeError, UserError
from leasehold.kit.atomic import write_atomic
from leasehold.model.lease import Lease

from .home import Home

KINDS = ("ntfy", "webhook")


def channels(home: Home) -> list[dict[str, str]]:
    """List the channels; the addresses are for sending, not for showing."""
    try:
        value = json.loads(_path(home).read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise HomeError(
            "notify.damaged", f"{_path(home)}: {error}", hint="remove the file and add the channels again"
        ) from None
    return [dict(item) for item in value.get("channels", [])]


def add(home: Home, kind: str, url: str) -> dict[str, str]:
    """Keep one more channel."""
    if kind not in KINDS:
        raise UserError("notify.unknown_kind", f"no channel of kind {kind!r}", hint=f"known: {', '.join(KINDS)}")
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or not _good_port(url):
        raise UserError(
            "notify.bad_address", "a channel's address is an http(s) URL", hint="for ntfy: https://ntfy.sh/YOUR-TOPIC"
        )
    kept = [item for item in channels(home) if item["url"] != url]
    _write(home, [*kept, {"kind": kind, "url": url}])
    return {"kind": kind, "address": shown(url)}


def remove(home: Home, number: int) -> dict[str, str]:
    """Forget one channel, by its number in the list."""
    kept = channels(home)
    if not 1 <= number <= len(kept):
        raise UserError("notify.unknown", f"there is no channel {number}", hint="lease notify list")
    gone = kept.pop(number - 1)
    _write(home, kept)
    return {"kind": gone["kind"], "address": shown(gone["url"])}


def wishes(home: Home, lease: Lease) -> dict[str, Any]:
    """Spell what the box needs for nagging: channels, and what an hour costs."""
    found = channels(home) if lease.box != "local" or lease.price else []  # your own machine does not bill
    return {"channels": found, "price": lease.price, "box": lease.box} if found else {}


def send_test(home: Home) -> tuple[int, list[str]]:
    """Send one notice to every channel from short-lived children, as the box would; count channels, name failures."""
    from leasehold.transport.parcel import run_door

    found = channels(home)
    if not found:
        raise UserError("notify.none", "no channel is set up", hint="lease notify add ntfy https://ntfy.sh/YOUR-TOPIC")
    text = "A test from lease notify test: this is how a box will tell you that a run has ended."
    what = {"title": "leasehold test", "text": text, "event": "test", "run": "", "state": "test", "priority": "default"}
    problems = []
    for number, channel in enumerate(found, 1):
        said = run_door(["notice"], json.dumps({"channels": [channel], "message": what}).encode("utf-8"))
        failed = json.loads(said).get("problems", []) if said else [f"{channel['kind']}: the sender said nothing"]
        problems += [f"channel {number}, {shown(channel['url'])}: {str(why).partition(': ')[2]}" for why in failed]
    return len(found), problems


def shown(url: str) -> str:
    """Show an address without what may be its secret; a few characters of its hash tell two of them apart."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/… (#{sha256(url.encode('utf-8')).hexdigest()[:4]})"


def _good_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:  # no number, or too large a one
        return False


def _write(home: Home, kept: list[dict[str, str]]) -> None:
    home.path.mkdir(parents=True, exist_ok=True)
    write_atomic(str(_path(home)), json.dumps({"channels": kept}).encode("utf-8"), mode=0o600)
    os.chmod(_path(home), 0o600)


def _path(home: Home) -> Path:
    return home.path / "notify.json"
