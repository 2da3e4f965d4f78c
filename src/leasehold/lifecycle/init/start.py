"""`lease init`: write the first job file; never overwrite one."""

from __future__ import annotations

from pathlib import Path

from leasehold.errors import HomeError, UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.init.write.write import write_job
from leasehold.lifecycle.project.ignored_data import left_home, named_by


def draft(folder: Path, facts: ProjectFacts) -> str:
    """Draft a job file for an inspected project, with the data that it reads and git ignores."""
    command = facts.entry.command if facts.entry is not None else ""
    return write_job(facts, named_by(folder, command, left_home(folder, command)))


def write_new(target: Path, text: str) -> None:
    """Write a new file; whatever is there, a link too, is never overwritten."""
    name = one_line(str(target))
    try:
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        hint = "name another with --to, or print it with --stdout"
        raise UserError("init.exists", f"{name} is already there and was not touched", hint=hint) from None
    except OSError as error:
        hint = "lease init --to a folder you may write"
        raise HomeError("init.cannot_write", f"{name}: {error.strerror}", hint=hint) from None
