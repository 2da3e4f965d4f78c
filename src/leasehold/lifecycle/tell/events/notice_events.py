"""What the box's journal says of its own notices, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.model.values.wording import ago


def _failed(event: dict[str, Any]) -> str:
    return one_line(f"your channel {event.get('channel')} takes no notices: {event.get('why')}; the box goes on trying")


def _back(event: dict[str, Any]) -> str:
    after_s = event.get("after_s")
    late = f" after {ago(float(after_s))}" if isinstance(after_s, (int, float)) else ""
    return one_line(f"your channel {event.get('channel')} takes notices again{late}")


NOTICE_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {"notice_failed": _failed, "notice_back": _back}
