"""A job file as YAML; every error names the file and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.facts import bounded_yaml
from leasehold.model.job.job import Job
from leasehold.model.job.parse_job import Source, parse_job

_MAX_TEXT_BYTES = 1 << 20
_MAX_DEPTH = 20


def parse_text(text: str, name: str, folder: Path | None = None) -> Job:
    """Read a job from YAML text; the files that it names are relative to folder."""
    lines: dict[str, int] = {}
    value = load(text, name, lines)
    source = Source(name, lines)
    if folder is not None:
        source = Source(name, lines, lambda file: _cells_file(folder, file, source))
    return parse_job(value, source)


def _cells_file(folder: Path, name: str, source: Source) -> Any:
    """Read a file of cells: its text, or for YAML its content."""
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
    try:
        return bounded_yaml.load(text, _MAX_DEPTH, lines=lines)
    except bounded_yaml.YamlProblem as problem:
        where = f"{name}:{problem.line}" if problem.line else name
        raise UserError("job.invalid", f"{where}: {problem.what}", hint=problem.hint) from None


def read_job(path: Path) -> Job:
    """Read and check a job file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(
            "job.missing", f"there is no job file {path}", hint="lease init writes one for your project"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("job.unreadable", f"{path}: {error}", hint="job files are UTF-8 text") from None
    return parse_text(text, str(path), path.parent)
