"""YAML with line numbers, so that a complaint can name the line; duplicate keys are errors."""

from __future__ import annotations

from typing import Any

import yaml

from leasehold.errors import UserError
from leasehold.model.job import Job
from leasehold.model.job_parse import Source, parse_job

_MAX_TEXT_BYTES = 1 << 20
_MAX_DEPTH = 20


def parse_text(text: str, name: str) -> Job:
    """Read a job from YAML text."""
    lines: dict[str, int] = {}
    value = load(text, name, lines)
    return parse_job(value, Source(name, lines))


def load(text: str, name: str, lines: dict[str, int]) -> Any:
    """Load plain YAML and fill lines with the line of each key, by its dotted path."""
    if len(text) > _MAX_TEXT_BYTES:
        raise UserError("job.invalid", f"{name} is larger than {_MAX_TEXT_BYTES >> 20} MiB; that is no job file")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _note_lines(node, "", name, lines, 0)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        hint = "YAML indents with spaces; quote text that holds ': ' or starts with *, {, [ or @"
        raise UserError("job.invalid", f"{where}: not valid YAML: {problem}", hint=hint) from None


def _note_lines(node: Any, path: str, name: str, lines: dict[str, int], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UserError("job.invalid", f"{name}: nested deeper than {_MAX_DEPTH} levels")
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        word = str(key.value)
        line = key.start_mark.line + 1
        if word in seen:
            raise UserError("job.invalid", f"{name}:{line}: {word}: stands there twice", hint="keep one of them")
        seen.add(word)
        inner = f"{path}.{word}" if path else word
        lines[inner] = line
        _note_lines(value, inner, name, lines, depth + 1)
