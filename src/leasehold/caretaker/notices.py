"""Send one notice from a short-lived process: urllib and TLS cost megabytes that the caretaker must not carry."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List

from leasehold.kit.redact import Redactor

_TIMEOUT_S = 20


def send_all(channels: List[Dict[str, str]], message: Dict[str, Any]) -> List[str]:
    """Send to every channel; return what went wrong, naming the channel's kind and never its address."""
    problems = []
    message = Redactor().tree(message)
    for channel in channels:
        sender = _SENDERS.get(channel.get("kind", ""))
        if sender is None:
            problems.append("no such channel: %s" % channel.get("kind"))
            continue
        try:
            sender(channel["url"], message)
        except (OSError, ValueError, KeyError) as error:  # HTTPError and URLError are OSErrors
            problems.append("%s: %s" % (channel.get("kind"), _plain(error, channel.get("url", ""))))
    return problems


def _ntfy(url: str, message: Dict[str, Any]) -> None:
    headers = {
        "Title": _ascii(str(message["title"])),
        "Priority": str(message.get("priority", "default")),
        "Tags": "computer",
    }
    _post(url, str(message["text"]).encode("utf-8"), headers)


def _webhook(url: str, message: Dict[str, Any]) -> None:
    _post(url, json.dumps(message, ensure_ascii=False).encode("utf-8"), {"Content-Type": "application/json"})


_SENDERS = {"ntfy": _ntfy, "webhook": _webhook}


def _post(url: str, body: bytes, headers: Dict[str, str]) -> None:
    if not url.startswith(("https://", "http://")):
        raise ValueError("not an http address")
    safe = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")  # a topic may be 中文
    request = urllib.request.Request(safe, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        answer.read(1000)


def _ascii(text: str) -> str:
    """Header values are latin-1 at most; RFC 2047 carries the rest."""
    if all(32 <= ord(char) < 127 for char in text):
        return text
    import base64

    return "=?UTF-8?B?%s?=" % base64.b64encode(text.encode("utf-8")).decode("ascii")


def _plain(error: BaseException, url: str) -> str:
    """An address may hold a token: it must not reach a journal."""
    reason = getattr(error, "reason", None)
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        error = reason if isinstance(reason, BaseException) else error
    said = getattr(error, "strerror", None) or str(error)
    return str(said).replace(url, "(address)")[:200]
