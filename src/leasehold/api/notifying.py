"""Verbs of notification channels: where a box reports what happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.lifecycle.tell.notify_test import Tried


def notify_list(home: Home) -> list[dict[str, str]]:
    """List the notification channels, with addresses hidden but still distinguishable."""
    from leasehold.lifecycle.tell.notify import channels, summary

    return [summary(item) for item in channels(home)]


def notify_kinds() -> list[dict[str, Any]]:
    """List every kind of channel: its fields, which of them are secret, and how to get one."""
    from leasehold.kit.tables.notice_channels import KINDS

    return [
        {"kind": kind.name, "how": kind.how, "fields": [field._asdict() for field in kind.fields]}
        for kind in KINDS.values()
    ]


def notify_add(home: Home, kind: str, fields: Mapping[str, str], name: str = "") -> dict[str, str]:
    """Add a notification channel."""
    from leasehold.lifecycle.tell.notify import add

    return add(home, kind, fields, name)


def notify_remove(home: Home, word: str) -> dict[str, str]:
    """Remove a notification channel, by name or number."""
    from leasehold.lifecycle.tell.notify import remove

    return remove(home, word)


def notify_test(home: Home, word: str = "", box: str = "") -> Tried:
    """Send a test notice from here or from a box, as the end of a run would."""
    from leasehold.lifecycle.tell.notify_test import try_channels

    return try_channels(home, word, box)
