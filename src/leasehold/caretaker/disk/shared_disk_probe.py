"""Detect a shared disk by a note: one box leaves it, another looks for it, and it is removed again."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Dict, Optional

from leasehold.caretaker.machine import limits

NAME = re.compile(r"[0-9a-f]{16,64}\Z")
_NOTE_BYTES = 256
_POLL_S = 0.1


def leave(folder: str, name: str, text: str) -> str:
    """Write a note that must not exist yet; return what went wrong, or nothing."""
    place = _place(folder, name)
    try:
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        return "%s: %s" % (place, error.strerror or error)
    try:
        os.write(fd, text.encode("utf-8")[:_NOTE_BYTES])
        os.fsync(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(place)
        return "%s: %s" % (place, error.strerror or error)
    finally:
        os.close(fd)
    return ""


def find(folder: str, name: str, wait_s: float) -> Dict[str, Any]:
    """Look for a note for at most wait_s, since a network disk may show it late; return what lies there."""
    place = _place(folder, name)
    deadline = time.monotonic() + wait_s
    text = _read(place)
    while text is None and os.path.isdir(os.path.dirname(place)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        text = _read(place)
    return {"text": text, "disk": limits.disk(folder)}


def drop(folder: str, name: str) -> str:
    """Remove a note; one that is gone is no error."""
    place = _place(folder, name)
    try:
        os.unlink(place)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return "%s: %s" % (place, error.strerror or error)
    return ""


def _place(folder: str, name: str) -> str:
    return os.path.join(os.path.expanduser(folder), ".leasehold-note-" + name)


def _read(place: str) -> Optional[str]:
    try:
        fd = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        return os.read(fd, _NOTE_BYTES).decode("utf-8", "replace") or None  # empty: it is just being written
    finally:
        os.close(fd)
