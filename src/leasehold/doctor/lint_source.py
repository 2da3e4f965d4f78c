"""A parsed source and the queries that the lint rules use."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mark:
    """The place and text of a rule's finding."""

    line: int
    rule: str
    id: str
    what: str
    fix: str


@dataclass
class Module:
    """One source file."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, text: str) -> Module:
        """Parse a source."""
        return cls(name, text, ast.parse(text, name))

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Return every call, in order."""
        return calls_in(self.tree)

    @cached_property
    def functions(self) -> list[Function]:
        """Return every function and method."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @cached_property
    def scopes(self) -> list[ast.AST]:
        """Return every function, and the module's own body."""
        return [*self.functions, self.tree]


Rule = Callable[[Module, list[Module]], Iterator[Mark]]


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Return every call below a node, in the order of the source."""
    found = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def own(scope: ast.AST) -> Iterator[ast.AST]:
    """Walk a scope without entering functions defined inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def own_calls(scope: ast.AST) -> list[ast.Call]:
    """Return the calls of a scope itself."""
    found = [node for node in own(scope) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def dotted(node: ast.AST) -> str:
    """Return a name such as torch.distributed.barrier; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else f".{node.attr}"
    return ""


def last(node: ast.AST) -> str:
    """Return the last part of a dotted name."""
    return dotted(node).rpartition(".")[2]


def receiver(call: ast.Call) -> str:
    """Return the object that a method is called on: `self.scaler` of `self.scaler.step()`."""
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def constant(node: ast.AST | None) -> object:
    """Return the value of a literal, else None."""
    return node.value if isinstance(node, ast.Constant) else None


def names_in(node: ast.AST) -> set[str]:
    """Return every plain name below a node."""
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def assigned(scope: ast.AST) -> dict[str, ast.expr]:
    """Return the last value assigned to each plain name of a scope."""
    found: dict[str, ast.expr] = {}
    for node in own(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found
