"""Fill a catalogue entry's commands with this run's paths and numbers."""

from __future__ import annotations

import os
import re
import shlex
from string import Formatter

from leasehold.facts.ailments import Ailment
from leasehold.kit.failure.evidence import Context, Evidence


def filled(ailment: Ailment, evidence: Evidence, context: Context) -> tuple[str, ...]:
    """Fill in the commands; one that needs an unknown value is left out."""
    values = {**_of_place(evidence), **context.values, **_of_line(ailment, evidence.text)}
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    done = []
    for command in ailment.commands:
        needed = _fields(command)
        if needed <= quoted.keys():
            done.append(command.format(**quoted) if needed else command)
    return tuple(done)


def unfilled(command: str) -> str:
    """Format a command for reading: values to be filled in for a run are shown in capitals."""
    fields = _fields(command)
    return command.format(**{name: name.upper() for name in fields}) if fields else command


def _of_place(evidence: Evidence) -> dict[str, str]:
    if not evidence.line:
        return {}
    name = evidence.source
    return {"log": name, "dir": os.path.dirname(name) or "."} if name != "-" else {"dir": "."}


def _of_line(ailment: Ailment, text: str) -> dict[str, str]:
    found = re.search(ailment.take, text) if ailment.take else None
    return {name: value for name, value in found.groupdict().items() if value} if found else {}


def _fields(command: str) -> set[str]:
    """Return the fields of a command; braces that are not a field, as in awk or a set, stay as they are."""
    try:
        names = {name for _, name, _, _ in Formatter().parse(command) if name is not None}
    except ValueError:
        return set()
    return names if all(name.isidentifier() for name in names) else set()
