"""Which frameworks a project imports, by reading it, never by running it."""

from __future__ import annotations

import ast
from pathlib import Path

from .project import CodeTree

_MAX_FILES = 60
_MAX_BYTES = 400_000


def imported(tree: CodeTree) -> set[str]:
    """Collect top-level module names from the project's first few dozen Python files, shallowest first."""
    paths = [str(entry["path"]) for entry in tree.entries if str(entry["path"]).endswith(".py") and "link" not in entry]
    paths.sort(key=lambda path: (path.count("/"), path))
    names: set[str] = set()
    for path in paths[:_MAX_FILES]:
        names |= _of(tree.folder / path)
    return names


def _of(path: Path) -> set[str]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return set()
        parsed = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
