"""Carry a job over from SkyPilot, Slurm or dstack: the kind is read from the content; every omission is reported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.init.text.page import clean
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.project.job_yaml import load

from .draft import Draft
from .from_dstack import TYPES, from_dstack
from .from_sbatch import from_sbatch
from .from_skypilot import KEYS, from_skypilot

_MAX_BYTES = 1 << 20
_SBATCH = re.compile(r"^#SBATCH\s", re.M)
_KNOWN = "a SkyPilot task, a dstack task, or a script with #SBATCH lines"


@dataclass(frozen=True)
class Conversion:
    """A job file, what was taken from the source, and what was not, with lines and reasons."""

    text: str
    converted: list[str]
    not_converted: list[str]
    source_kind: str


def convert(path: Path, facts: ProjectFacts | None = None) -> Conversion:
    """Carry a file over; facts about its project, where given, supply the files that it writes."""
    source = one_line(path.name)
    text = _read(path)
    if _SBATCH.search(text):
        return _finished(from_sbatch(text, source), "sbatch", facts)
    lines: dict[str, int] = {}
    value = _load(text, source, lines)
    if value.get("type") in TYPES:
        return _finished(from_dstack(value, lines, source), "dstack", facts)
    if "artifacts" in value and "run" in value:
        raise UserError(
            "init.unknown_format", f"{source} is a Leasehold job already", hint=f"use it: lease run {source}"
        )
    if _is_skypilot(value):
        return _finished(from_skypilot(value, lines, source), "skypilot", facts)
    raise _unknown(source, f"its keys are {', '.join(clean(str(key), 40) for key in list(value)[:8])}")


def _is_skypilot(value: dict[str, Any]) -> bool:
    """Return whether most keys are SkyPilot's, and a script where one belongs."""
    known = KEYS.intersection(value)
    scripts = all(isinstance(value.get(key), str | None) for key in ("run", "setup"))
    return scripts and bool(known & {"run", "setup", "resources"}) and len(known) * 2 >= len(value)


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError("init.no_source", f"there is no file {one_line(str(path))}", hint=f"name {_KNOWN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("init.unreadable", f"{one_line(str(path))}: {error}", hint="it must be UTF-8 text") from None
    if len(content) > _MAX_BYTES or "\0" in text:
        raise _unknown(one_line(path.name), "it is larger than 1 MiB or binary")
    return text.replace("\r\n", "\n")


def _load(text: str, source: str, lines: dict[str, int]) -> dict[str, Any]:
    if text.startswith("#!") or not text.strip():
        raise _unknown(source, "it is empty" if not text.strip() else "it is a script without #SBATCH lines")
    documents = [part for part in re.split(r"^---.*$", text, flags=re.M) if re.sub(r"#.*|\s", "", part)]
    if len(documents) > 1:
        raise UserError(
            "init.not_a_task", f"{source} holds {len(documents)} documents, a pipeline of several tasks",
            hint="split it: one task in one file",
        )  # fmt: skip
    value = load(text, source, lines)
    if not isinstance(value, dict):
        raise _unknown(source, f"it is a {type(value).__name__}, not a mapping of keys")
    return value


def _finished(draft: Draft, kind: str, facts: ProjectFacts | None) -> Conversion:
    text = draft.text(facts)
    return Conversion(text, draft.report.converted, draft.report.not_converted, kind)


def _unknown(source: str, seen: str) -> UserError:
    return UserError(
        "init.unknown_format", f"{source} is none of the kinds known here: {seen}", hint=f"known: {_KNOWN}"
    )
