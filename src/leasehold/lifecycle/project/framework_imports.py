"""Find the frameworks that a command needs, by reading the project from its script on, never by running it."""

from __future__ import annotations

import ast
import posixpath
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from .code_tree import CodeTree

_MAX_FILES = 60
_MAX_BYTES = 400_000
_MODULE = re.compile(r"(?:^|\s)-m\s+([A-Za-z_][\w.]*)")
_SCRIPT = re.compile(r"[^\s'\";&|()=]+\.py\b")
_ROOTS = ("", "src")


def imported(tree: CodeTree, command: str = "") -> set[str]:
    """Collect the top-level modules that a command's script and the project files it imports require.

    Imports in a `try` with a handler are optional, and do not count. Where no script of the project is named,
    its first few dozen Python files are read, shallowest first.
    """
    paths = {str(entry["path"]) for entry in tree.entries if str(entry["path"]).endswith(".py") and "link" not in entry}
    entries = _entries(command, paths)
    if not entries:
        shallow = sorted(paths, key=lambda path: (path.count("/"), path))[:_MAX_FILES]
        return {name.partition(".")[0] for path in shallow for name, level in _of(tree.folder / path) if not level}
    names: set[str] = set()
    waiting, seen = deque(entries), set(entries)
    while waiting and len(seen) <= _MAX_FILES:
        path = waiting.popleft()
        for name, level in _of(tree.folder / path):
            local = [found for found in _files(name, level, path, entries[0]) if found in paths]
            if not local and not level:
                names.add(name.partition(".")[0])
            waiting.extend(found for found in local if found not in seen)
            seen.update(local)
    return names


def own_packages(tree: CodeTree, command: str) -> list[str]:
    """Return the project's packages that a command's script imports and that do not lie beside it.

    They come from PYTHONPATH or from an install, and an install may be another copy. A script that sets sys.path itself
    is taken at its word.
    """
    paths = {str(entry["path"]) for entry in tree.entries if str(entry["path"]).endswith(".py") and "link" not in entry}
    entries = _entries(command, paths)
    if not entries or re.search(rb"sys\.path|rootutils", (tree.folder / entries[0]).read_bytes()[:_MAX_BYTES]):
        return []
    begun = "" if _MODULE.search(command) else posixpath.dirname(entries[0])
    own: set[str] = set()
    waiting, seen = deque(entries[:1]), set(entries[:1])
    while waiting and len(seen) <= _MAX_FILES:
        path = waiting.popleft()
        for name, level in _of(tree.folder / path):
            top = name.partition(".")[0]
            beside = {posixpath.join(begun, top + end) for end in (".py", "/__init__.py")} & paths
            if not level and not beside and any(posixpath.join(root, top, "__init__.py") in paths for root in _ROOTS):
                own.add(top)
            local = {found for found in _files(name, level, path, entries[0]) if found in paths} - seen
            waiting.extend(sorted(local))
            seen |= local
    return sorted(own)


def _entries(command: str, paths: set[str]) -> list[str]:
    """Find the project's scripts and modules named on a command line."""
    named = [posixpath.normpath(word) for word in _SCRIPT.findall(command)]
    for module in _MODULE.findall(command):
        place = module.replace(".", "/")
        named += [posixpath.join(root, place + end) for root in _ROOTS for end in (".py", "/__main__.py")]
    return [path for path in dict.fromkeys(named) if path in paths]


def _files(name: str, level: int, path: str, entry: str) -> Iterator[str]:
    """Return where in the project a module would lie: the root, src, beside the script, or beside its importer."""
    roots = [*_ROOTS, posixpath.dirname(entry)]
    if level:
        above = posixpath.dirname(path).split("/") if "/" in path else []
        roots = ["/".join(above[: len(above) - level + 1])]
    parts = [part for part in name.split(".") if part]
    for root in dict.fromkeys(roots):
        for depth in range(len(parts), 0 if level == 0 else -1, -1):
            place = posixpath.join(root, *parts[:depth])
            yield place + ".py"
            yield posixpath.join(place, "__init__.py")


def _of(path: Path) -> list[tuple[str, int]]:
    """List what a file imports, as (dotted name, number of leading dots)."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return []
        parsed = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[tuple[str, int]] = []
    for node in _needed(parsed):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += (
                [(f"{module}.{alias.name}".strip("."), node.level) for alias in node.names]
                if module or node.level
                else []
            )
    return found


def _needed(parsed: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree without optional imports and those only for type checkers."""
    waiting: deque[ast.AST] = deque([parsed])
    while waiting:
        node = waiting.popleft()
        yield node
        if isinstance(node, ast.Try) and node.handlers:
            waiting.extend([*node.orelse, *node.finalbody])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))
