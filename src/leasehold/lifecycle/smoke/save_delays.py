"""Explain why a smoke of a few steps wrote nothing: the flags that set how often the code saves."""

from __future__ import annotations

import re
from pathlib import Path

from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.options.flag_roles import tiny_value
from leasehold.lifecycle.init.text.project_facts import Flag, Role

_MOST_NAMED = 3
_SOON = 3  # steps of a smoke


def what_delays(folder: Path, smoke: str) -> str:
    """Return the flags that may delay a save past the end of a smoke; empty when none is found."""
    named = [text for flag in look_at(folder).flags if flag.role is Role.INTERVAL and (text := _late(flag, smoke))]
    if not named:
        return ""
    return f"{', '.join(named[:_MOST_NAMED])}: it saves only so often; set that lower in `smoke`"


def _late(flag: Flag, smoke: str) -> str:
    found = re.search(rf"(?<!\S){re.escape(flag.name)}(?:=|\s+)(\S+)", smoke)
    value = found[1] if found else flag.default
    if not value.isdigit() or int(value) <= _SOON:
        return ""
    said = "in `smoke`" if found else "unless it is set"
    return f"{flag.name} ({flag.where}) is {value} {said}, {flag.spelled(tiny_value(flag) or '2')} would save early"
