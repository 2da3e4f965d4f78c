"""Find what must be installed: requirement files of every common kind, and pins that conflict with a rented image."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib

from leasehold.lifecycle.init.text.project_facts import Sign, Where
from leasehold.lifecycle.init.text.project_files import Listing
from leasehold.lifecycle.init.text.source import Source, argument, parse_source, text_of

_REQUIREMENTS = re.compile(r"(?:requirements/)?requirements[^/]*\.(?:txt|in)\Z|requirements/[^/]+\.txt\Z")
_CONDA = re.compile(r"(?:conda/)?env(?:ironment)?[^/]*\.ya?ml\Z")
_LOCKS = {"uv.lock": "uv sync", "poetry.lock": "poetry install", "Pipfile.lock": "pipenv sync", "pdm.lock": "pdm sync"}
_DEVELOPERS = re.compile(r"dev|test|doc|lint|cpu|optional", re.I)
_FRAMEWORK = re.compile(r"\s*(torch|torchvision|torchaudio|tensorflow|jax)\s*(?:\[.*?\])?\s*(?:[=<>!~@ ]|\Z)")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,<>=!~\[\]()'\";@+-]*\Z")
_MAX_LINES = 2_000


def find_requirements(listing: Listing, entry: str = "") -> tuple[Sign, ...]:
    """List files that declare dependencies; the word is the command that installs one, the note says more.

    A requirements file lies at the top, or beside the entry or in a folder above it.
    """
    found = []
    folders = [entry[:at] for at, letter in enumerate(entry, 1) if letter == "/"]
    for path in listing.paths:
        if not path.isprintable():
            continue
        beside = next((folder for folder in reversed(folders) if path.startswith(folder)), "")
        if _REQUIREMENTS.match(path[len(beside) :]):
            found.append(Sign(f"pip install -r {shlex.quote(path)}", Where(path), _pins(listing, path)))
        elif _CONDA.match(path):
            found.append(Sign(f"conda env update -n base -f {shlex.quote(path)}", Where(path), "conda"))
        elif path in _LOCKS:
            found.append(Sign(_LOCKS[path], Where(path), "lock file"))
        elif path == "setup.py" or (path == "pyproject.toml" and _is_package(listing)):
            found.append(Sign(_dependencies(listing, path), Where(path), "package"))
    return tuple(sorted(found, key=_order))


def setup_lines(requirements: tuple[Sign, ...]) -> list[Sign]:
    """Choose the install command: a plain requirements file first, else a conda file, else the package's dependencies.

    The project is never installed: an editable install would let every later run import this run's code.
    """
    chosen = [sign for sign in requirements if sign.word.startswith("pip install -r") and not _aside(sign)][:1]
    if not chosen:
        chosen = [sign for sign in requirements if sign.note == "conda"][:1]
    return chosen or [sign for sign in requirements if sign.note == "package" and sign.word][:1]


def _aside(sign: Sign) -> bool:
    return bool(_DEVELOPERS.search(sign.where.path.rpartition("/")[2]))


def _order(sign: Sign) -> tuple[bool, int, str]:
    return _aside(sign), len(sign.where.path), sign.where.path


def _pins(listing: Listing, path: str) -> str:
    """Return the lines that pin a framework: a rented image brings its own build, made for its driver."""
    text = listing.text(path) or ""
    pins = [
        f"{path}:{number} names {found[1]}"
        for number, line in enumerate(text.splitlines()[:_MAX_LINES], 1)
        if (found := _FRAMEWORK.match(line))
    ]
    return "; ".join(pins[:3])


def _dependencies(listing: Listing, path: str) -> str:
    """Format the install command for a package's dependencies; empty when it declares none that can be read."""
    wanted: object = []
    if path == "setup.py":
        source = parse_source(path, listing.read(path) or b"")
        calls = source.calls() if isinstance(source, Source) else ()
        found = [argument(call, -1, "install_requires") for call, name in calls if name.endswith("setup")]
        lists = [node.elts for node in found if isinstance(node, ast.List)]
        wanted = [text_of(item) for items in lists for item in items]
    else:
        project = tomllib.loads(listing.text(path) or "").get("project")
        wanted = project.get("dependencies") if isinstance(project, dict) else []
    listed = wanted if isinstance(wanted, list) else []
    words = [word for word in listed if isinstance(word, str) and _PLAIN.match(word)]
    return "pip install " + " ".join(shlex.quote(word) for word in words[:60]) if words else ""


def _is_package(listing: Listing) -> bool:
    try:
        declared = tomllib.loads(listing.text("pyproject.toml") or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    tool = declared.get("tool")
    return "project" in declared or (isinstance(tool, dict) and "poetry" in tool)
