"""`lease init`: write the first job file; never overwrite one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from leasehold.errors import HomeError, UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.init.convert.convert import Conversion, convert
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.init.write.write import write_job
from leasehold.lifecycle.project.ignored_data import left_home, named_by


@dataclass(frozen=True)
class Started:
    """What `lease init` wrote, where (empty for stdout), and the evidence for it."""

    text: str
    target: Path | None
    facts: ProjectFacts
    conversion: Conversion | None = None


def init(folder: Path, target: Path, *, stdout: bool = False, source: Path | None = None) -> Started:
    """Inspect a folder, or convert `source`, and write a job file; with stdout, only return it."""
    if not stdout:
        _refuse_existing(target)
    facts = look_at(folder)
    conversion = convert(source, facts) if source is not None else None
    text = conversion.text if conversion is not None else draft(folder, facts)
    if not stdout:
        _write_new(target, text)
    return Started(text, None if stdout else target, facts, conversion)


def draft(folder: Path, facts: ProjectFacts) -> str:
    """Draft a job file for an inspected project, with the data that it reads and git ignores."""
    command = facts.entry.command if facts.entry is not None else ""
    return write_job(facts, named_by(folder, command, left_home(folder, command)))


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise UserError(
            "init.exists", f"{one_line(str(target))} is there already, and is never overwritten",
            hint="lease init --to other.yaml",
        )  # fmt: skip


def _write_new(target: Path, text: str) -> None:
    try:
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        _refuse_existing(target)
    except OSError as error:
        raise HomeError(
            "init.cannot_write",
            f"{one_line(str(target))}: {error.strerror}",
            hint="lease init --to a folder you may write",
        ) from None
