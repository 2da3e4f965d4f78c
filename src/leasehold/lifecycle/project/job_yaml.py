"""YAML with line numbers, so that a complaint can name the line; duplicate keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from leasehold.errors import UserError
from leasehold.model.job.job import Job
from leasehold.model.job.parse_job import Source, parse_job

_MAX_TEXT_BYTES = 1 << 20
_MAX_DEPTH = 20
_MAX_NODES = 10_000  # counted with every alias spelled out: a few lines of aliases can stand for gigabytes
_MAX_SCALAR = 100_000
_SCALARS = {"tag:yaml.org,2002:int": 100, "tag:yaml.org,2002:float": 100}  # Python cannot even print a huge one


def parse_text(text: str, name: str, folder: Path | None = None) -> Job:
    """Read a job from YAML text; files that it names lie in folder."""
    lines: dict[str, int] = {}
    value = load(text, name, lines)
    source = Source(name, lines)
    if folder is not None:
        source = Source(name, lines, lambda file: _cells_file(folder, file, source))
    return parse_job(value, source)


def _cells_file(folder: Path, name: str, source: Source) -> Any:
    """Read a file of cells: its text, or for YAML what it holds."""
    try:
        if (folder / name).stat().st_size > _MAX_TEXT_BYTES:
            raise source.bad("cells.file", f"{name} is larger than {_MAX_TEXT_BYTES >> 20} MiB")
        text = (folder / name).read_text("utf-8")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise source.bad("cells.file", f"{name}: {said}", f"looked in {folder}; it is UTF-8 text") from None
    return load(text, str(folder / name), {}) if name.endswith((".yaml", ".yml")) else text


def load(text: str, name: str, lines: dict[str, int]) -> Any:
    """Load plain YAML and fill lines with the line of each key, by its dotted path."""
    if len(text) > _MAX_TEXT_BYTES:
        raise UserError("job.invalid", f"{name} is larger than {_MAX_TEXT_BYTES >> 20} MiB; that is no job file")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _Look(name, lines).at(node, "", 0)
        return None if node is None else loader.construct_document(node)  # of what was looked at: read only once
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        hint = "YAML indents with spaces; quote text that holds ': ' or starts with *, {, [ or @"
        raise UserError("job.invalid", f"{where}: not valid YAML: {problem}", hint=hint) from None
    except RecursionError:
        raise UserError("job.invalid", f"{name}: nested deeper than {_MAX_DEPTH} levels") from None
    except (ValueError, AttributeError, OverflowError) as error:  # a date or number that YAML reads and cannot build
        raise UserError("job.invalid", f"{name}: not valid YAML: {error}", hint="quote dates and numbers") from None


class _Look:
    """Walks the parsed tree once, before anything is built from it: lines, duplicates, and bounds."""

    def __init__(self, name: str, lines: dict[str, int]) -> None:
        self._name = name
        self._lines = lines
        self._nodes = 0

    def at(self, node: Any, path: str, depth: int) -> None:
        """Note the lines of the keys below node."""
        self._nodes += 1
        if depth > _MAX_DEPTH:
            raise self._bad(node, f"nested deeper than {_MAX_DEPTH} levels")
        if self._nodes > _MAX_NODES:
            raise self._bad(node, f"more than {_MAX_NODES:,} values, with its aliases spelled out; that is no job file")
        if isinstance(node, yaml.ScalarNode) and len(node.value) > _SCALARS.get(node.tag, _MAX_SCALAR):
            raise self._bad(node, "a value too long for a job file")
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self._lines[f"{path}.{number}"] = item.start_mark.line + 1
                self.at(item, f"{path}.{number}", depth + 1)
        if isinstance(node, yaml.MappingNode):
            self._keys(node, path, depth)

    def _keys(self, node: Any, path: str, depth: int) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._bad(key, "a key must be a plain word")
            word = str(key.value)
            if word in seen:
                raise self._bad(key, f"{word}: stands there twice", "keep one of them")
            seen.add(word)
            inner = f"{path}.{word}" if path else word
            self._lines[inner] = key.start_mark.line + 1
            self.at(value, inner, depth + 1)

    def _bad(self, node: Any, what: str, hint: str = "") -> UserError:
        return UserError("job.invalid", f"{self._name}:{node.start_mark.line + 1}: {what}", hint=hint)
