"""What must be installed: requirement files of every common kind, and pins that a rented image would rather keep."""

from __future__ import annotations

import re
import shlex
import tomllib

from .facts import Sign, Where
from .listing import Listing

_REQUIREMENTS = re.compile(r"(?:requirements/)?requirements[^/]*\.(?:txt|in)\Z|requirements/[^/]+\.txt\Z")
_CONDA = re.compile(r"(?:conda/)?env(?:ironment)?[^/]*\.ya?ml\Z")
_LOCKS = {"uv.lock": "uv sync", "poetry.lock": "poetry install", "Pipfile.lock": "pipenv sync", "pdm.lock": "pdm sync"}
_DEVELOPERS = re.compile(r"dev|test|doc|lint|cpu|optional", re.I)
_FRAMEWORK = re.compile(r"\s*(torch|torchvision|torchaudio|tensorflow|jax)\s*(?:\[.*?\])?\s*(?:[=<>!~@ ]|\Z)")
_MAX_LINES = 2_000


def find_requirements(listing: Listing) -> tuple[Sign, ...]:
    """List what declares dependencies; the word is the command that installs it, the note says more."""
    found = []
    for path in listing.paths:
        if not path.isprintable():
            continue
        if _REQUIREMENTS.match(path):
            found.append(Sign(f"pip install -r {shlex.quote(path)}", Where(path), _pins(listing, path)))
        elif _CONDA.match(path):
            found.append(Sign(f"conda env update -n base -f {shlex.quote(path)}", Where(path), "conda"))
        elif path in _LOCKS:
            found.append(Sign(_LOCKS[path], Where(path), "lock file"))
        elif path == "setup.py" or (path == "pyproject.toml" and _is_package(listing)):
            found.append(Sign("pip install -e .", Where(path), "package"))
    return tuple(sorted(found, key=_order))


def is_package(requirements: tuple[Sign, ...]) -> bool:
    """Whether the project can be installed."""
    return any(sign.note == "package" for sign in requirements)


def setup_lines(requirements: tuple[Sign, ...]) -> list[Sign]:
    """Choose what to run: a plain requirements file first, else a conda file; and the project itself."""
    chosen = [sign for sign in requirements if sign.word.startswith("pip install -r") and not _aside(sign)][:1]
    if not chosen:
        chosen = [sign for sign in requirements if sign.note == "conda"][:1]
    packages = [sign for sign in requirements if sign.note == "package"][:1]
    return chosen + packages


def _aside(sign: Sign) -> bool:
    return bool(_DEVELOPERS.search(sign.where.path.rpartition("/")[2]))


def _order(sign: Sign) -> tuple[bool, int, str]:
    return _aside(sign), len(sign.where.path), sign.where.path


def _pins(listing: Listing, path: str) -> str:
    """Say which lines name a framework: a rented image brings its own build, made for its driver."""
    text = listing.text(path) or ""
    pins = [
        f"{path}:{number} names {found[1]}"
        for number, line in enumerate(text.splitlines()[:_MAX_LINES], 1)
        if (found := _FRAMEWORK.match(line))
    ]
    return "; ".join(pins[:3])


def _is_package(listing: Listing) -> bool:
    try:
        declared = tomllib.loads(listing.text("pyproject.toml") or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    tool = declared.get("tool")
    return "project" in declared or (isinstance(tool, dict) and "poetry" in tool)
