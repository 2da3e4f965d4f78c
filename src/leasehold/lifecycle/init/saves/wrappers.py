"""Functions of the project that save an argument to a path argument: each caller writes a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.lifecycle.init.text.project_facts import Where
from leasehold.lifecycle.init.text.source import Source, argument

RENAMES = ("os.replace", "os.rename", "os.renames", "shutil.move")
RENAME_METHODS = ("replace", "rename")
_SAVES = "torch.save"


@dataclass(frozen=True)
class Wrapper:
    """The arguments of a function that hold the object and the path, and the call in it that saves."""

    name: str
    inside: Where
    object_at: int
    path_at: int
    object_name: str = ""
    path_name: str = ""

    def saved(self, call: ast.Call) -> ast.expr | None:
        """Return the object that a caller saves."""
        return argument(call, self.object_at, self.object_name or "obj")

    def path(self, call: ast.Call) -> ast.expr | None:
        """Return the path to which a caller saves."""
        return argument(call, self.path_at, self.path_name or "f")


NO_WRAPPERS: Mapping[str, Wrapper] = {}


def find_wrappers(sources: Iterable[Source]) -> dict[str, Wrapper]:
    """List the functions that pass their arguments on to torch.save, by name; names defined twice are left out."""
    found: dict[str, Wrapper] = {}
    seen: set[str] = set()
    for source in sources:
        for node in source.tree.body:
            wrapper = _wrapper(source, node) if isinstance(node, ast.FunctionDef) else None
            if wrapper is not None:
                found[wrapper.name] = wrapper
            if isinstance(node, ast.FunctionDef) and node.name in seen:
                found.pop(node.name, None)
            seen |= {node.name} if isinstance(node, ast.FunctionDef) else set()
    return found


def calls_of(wrappers: Mapping[str, Wrapper], source: Source) -> list[tuple[ast.Call, Wrapper]]:
    """List the calls in a file that give a wrapper its path."""
    found = []
    for call, name in source.calls():
        head, _, last = name.rpartition(".")
        wrapper = wrappers.get(last)
        if wrapper is not None and head.partition(".")[0] not in ("self", "?", "torch") and wrapper.path(call):
            found.append((call, wrapper))
    return found


def _wrapper(source: Source, function: ast.FunctionDef) -> Wrapper | None:
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or source.dotted(node.func) != _SAVES:
            continue
        first = node.args[0] if node.args else None
        if function.args.vararg and not names and isinstance(first, ast.Starred):
            return Wrapper(function.name, source.at(node), 0, 1)
        path, saved = _final(source, function, argument(node, 1, "f")), argument(node, 0, "obj")
        if isinstance(path, ast.Name) and isinstance(saved, ast.Name) and {path.id, saved.id} <= set(names):
            places = (names.index(saved.id), names.index(path.id))
            return Wrapper(function.name, source.at(node), *places, saved.id, path.id)
    return None


def _final(source: Source, function: ast.FunctionDef, path: ast.expr | None) -> ast.expr | None:
    """Return the name to which the function renames a temporary path; else the path."""
    for node in ast.walk(function) if path is not None else ():
        if not isinstance(node, ast.Call):
            continue
        if source.dotted(node.func) in RENAMES:
            start, end = argument(node, 0, "src"), argument(node, 1, "dst")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in RENAME_METHODS and len(node.args) == 1:
            start, end = node.func.value, node.args[0]
        else:
            continue
        if start is not None and path is not None and ast.dump(start) == ast.dump(path):
            return end
    return path
