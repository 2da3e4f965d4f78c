"""The user's notification channels: kept in a 0600 file of this home, sent to boxes over the wire only."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leasehold.errors import HomeError, UserError
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.tables.notice_channels import KINDS, Kind
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money.platform_facts import facts_of
from leasehold.model.job.job import Job
from leasehold.model.lease.lease import Lease

BY_NAME = "env:"  # a value that stays in your environment until it is needed
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FIRST = "lease notify add ntfy https://ntfy.sh/YOUR-TOPIC"

Channel = dict[str, str]


def channels(home: Home) -> list[Channel]:
    """List the channels by name; their values are for sending, not for display."""
    try:
        value = json.loads(_path(home).read_text("utf-8"))
        found = [{str(key): str(item) for key, item in one.items()} for one in value.get("channels", [])]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError) as error:
        raise HomeError(
            "notify.damaged", f"{_path(home)}: {error}", hint="remove the file and add the channels again"
        ) from None
    named: list[Channel] = []
    for one in found:
        named.append({**one, "name": one.get("name") or _free_name(one.get("kind", ""), named)})
    return named


def add(home: Home, kind: str, fields: Mapping[str, str], name: str = "") -> dict[str, str]:
    """Add a channel; adding the same one again replaces it."""
    known = _kind(kind)
    values = {key: value.strip() for key, value in fields.items() if value.strip()}
    _check_fields(known, values)
    kept = [one for one in channels(home) if not _same(one, kind, values)]
    if name and not _NAME.match(name):
        raise UserError("notify.bad_name", f"{name!r} is not a channel name", hint="letters, digits, dots and dashes")
    if any(one["name"] == name for one in kept):
        raise UserError("notify.taken", f"a channel named {name!r} exists already", hint=f"lease notify remove {name}")
    new = {"name": name or _free_name(kind, kept), "kind": kind, **values}
    _write(home, [*kept, new])
    return summary(new)


def remove(home: Home, word: str) -> dict[str, str]:
    """Remove a channel, by its name or its number in the list."""
    kept = channels(home)
    gone = _find(kept, word)
    _write(home, [one for one in kept if one is not gone])
    return summary(gone)


def wishes(home: Home, lease: Lease, job: Job | None = None) -> dict[str, Any]:
    """Collect what the box needs for notices: channels, topics, and the price per hour."""
    wish = job.notify if job else None
    bills = lease.box != "local" or bool(lease.price)
    if not bills and wish is None:
        return {}  # your own machine does not bill; a job may ask for notices all the same
    found = channels(home)
    if wish is not None and wish.channels:
        found = [_find(found, name) for name in wish.channels]
    if not found or (wish is not None and not wish.on):
        return {}
    said: dict[str, Any] = {"channels": [resolved(one) for one in found], "price": lease.price, "box": lease.box}
    if bills and not lease.price and not facts_of(home, lease).metered:
        said["free"] = True  # there is no meter to warn about
    return {**said, "on": list(wish.on)} if wish is not None else said


def resolved(channel: Channel, environ: Mapping[str, str] = os.environ) -> Channel:
    """Resolve values kept as env:NAME; a missing variable is reported before anything starts."""
    full = dict(channel)
    for field, value in channel.items():
        if not value.startswith(BY_NAME) or field in ("name", "kind"):
            continue
        variable = value[len(BY_NAME) :]
        if not environ.get(variable):
            raise UserError(
                "notify.secret_missing",
                f"channel {channel['name']} reads its {field} from {variable}, which is not set",
                hint=f"export {variable}=…, or lease notify remove {channel['name']}",
            )
        full[field] = environ[variable]
    return full


def chosen(home: Home, word: str = "") -> list[Channel]:
    """Return the channels that a person means: the named one, or all."""
    found = channels(home)
    if not found:
        raise UserError("notify.none", "no channel is set up", hint=_FIRST)
    return [_find(found, word)] if word else found


def summary(channel: Channel) -> dict[str, str]:
    """Summarize a channel for people."""
    return {"name": channel["name"], "kind": channel["kind"], "address": shown(channel)}


def shown(channel: Mapping[str, str]) -> str:
    """Format a channel's target without its secret; a few characters of its hash tell two of them apart."""
    if channel.get("kind") == "smtp":
        return f"{channel.get('to')} by {channel.get('host')}"
    if channel.get("kind") == "telegram":
        return f"chat {channel.get('chat_id')} (#{_mark(channel.get('token', ''))})"
    url = channel.get("url", "")
    if url.startswith(BY_NAME):
        return f"${url[len(BY_NAME) :]}"
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/… (#{_mark(url)})"


def _mark(secret: str) -> str:
    return sha256(secret.encode("utf-8")).hexdigest()[:4]


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise UserError("notify.unknown_kind", f"no channel of kind {kind!r}", hint=f"known: {', '.join(KINDS)}")
    return KINDS[kind]


def _check_fields(kind: Kind, values: Mapping[str, str]) -> None:
    names = [field.name for field in kind.fields]
    for name, value in values.items():
        if name not in names:
            raise UserError("notify.usage", f"{kind.name} has no field {name!r}", hint=f"known: {', '.join(names)}")
        if value.startswith(BY_NAME) and not _VARIABLE.match(value[len(BY_NAME) :]):
            raise UserError("notify.usage", f"{name}: {value!r} names no variable", hint=f"{name}=env:NAME_OF_IT")
        allowed = kind.field(name).one_of
        if allowed and value not in allowed:
            raise UserError("notify.usage", f"{name} is one of {', '.join(allowed)}, not {value!r}")
    missing = [field for field in kind.fields if field.needed and not values.get(field.name)]
    if missing:
        raise UserError(
            "notify.usage",
            f"{kind.name} needs its {missing[0].name}: {missing[0].what}",
            hint=f"how to get one: {kind.how}",
        )
    url = values.get("url", "")
    if url and not url.startswith(BY_NAME) and not _good_url(url):
        raise UserError(
            "notify.bad_address",
            "a channel's address is an http(s) URL",
            hint=f"for {kind.name}: {kind.field('url').what}",
        )
    if values.get("port") and not (values["port"].isdigit() and 0 < int(values["port"]) < 65536):
        raise UserError("notify.bad_address", f"{values['port']!r} is no port")


def _good_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number, or is too large
        return False


def _same(one: Channel, kind: str, values: Mapping[str, str]) -> bool:
    told = {"url": one.get("url"), "token": one.get("token"), "chat_id": one.get("chat_id"), "to": one.get("to")}
    same = {key: values.get(key) for key in told}
    return one["kind"] == kind and (
        told == same or bool(told["url"]) and told["url"] == same["url"] and kind != "telegram"
    )


def _find(found: list[Channel], word: str) -> Channel:
    by_number = found[int(word) - 1 : int(word)] if word.isdigit() and int(word) > 0 else []
    fitting = [one for one in found if one["name"] == word] or by_number
    if not fitting:
        names = ", ".join(one["name"] for one in found) or "none yet"
        raise UserError("notify.unknown", f"there is no channel {word}", hint=f"lease notify list; known: {names}")
    return fitting[0]


def _free_name(kind: str, kept: list[Channel]) -> str:
    taken = {one["name"] for one in kept}
    names = [kind or "channel", *(f"{kind or 'channel'}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _write(home: Home, kept: list[Channel]) -> None:
    home.path.mkdir(parents=True, exist_ok=True)
    write_atomic(str(_path(home)), json.dumps({"channels": kept}).encode("utf-8"), mode=0o600)
    os.chmod(_path(home), 0o600)


def _path(home: Home) -> Path:
    return home.path / "notify.json"
