"""One Python file, parsed and never run: its nodes, its imports and the values of its names."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from .project_facts import Where

MAX_NODES = 200_000


@dataclass
class Source:
    """A parsed file. Names map to their assignments, by line; imports to full dotted names."""

    path: str
    tree: ast.Module
    nodes: list[ast.AST]
    imports: dict[str, str] = field(default_factory=dict)
    modules: list[tuple[str, int]] = field(default_factory=list)
    assigned: dict[str, list[tuple[int, ast.expr]]] = field(default_factory=lambda: defaultdict(list))

    def at(self, node: ast.AST) -> Where:
        """Return the place of a node."""
        return Where(self.path, getattr(node, "lineno", 0))

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call with the full dotted name of the called function."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.dotted(node.func)

    def dotted(self, node: ast.expr) -> str:
        """Format a name as a.b.c with its import expanded; anything else becomes `?`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < 12:
            parts.append(node.attr)
            node = node.value
        head = self.imports.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([head, *reversed(parts)])

    def conditions(self) -> dict[int, tuple[str, ...]]:
        """Map each call's id to the settings that its enclosing `if args.name` conditions require."""
        asked: dict[int, tuple[str, ...]] = {}
        for node in self.nodes:
            names = _asked_for(node.test) if isinstance(node, ast.If) else ()
            if not isinstance(node, ast.If) or not names:
                continue
            for inner in (inner for part in node.body for inner in ast.walk(part)):
                if isinstance(inner, ast.Call):
                    asked[id(inner)] = (*asked.get(id(inner), ()), *names)
        return asked

    def last_assigned(self, name: str, before: int) -> tuple[int, ast.expr] | None:
        """Return the assignment to a name nearest above a line."""
        above = [item for item in self.assigned.get(name, ()) if item[0] < before]
        return max(above, key=lambda item: item[0]) if above else None

    def given(self, name: str, line: int) -> tuple[int, ast.expr] | None:
        """Return the argument that the first caller in this file passes for a parameter of the function at a line."""
        for node in self.nodes:
            if not isinstance(node, ast.FunctionDef) or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
            if name not in names:
                continue
            place = names.index(name) - (names[0] == "self")
            for call, called in self.calls():
                value = argument(call, place, name) if called.rpartition(".")[2] == node.name else None
                if value is not None:
                    return call.lineno, value
        return None


def _asked_for(test: ast.expr) -> tuple[str, ...]:
    """Return the settings that a condition requires: args.save, or args.save and more."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return tuple(name for value in test.values for name in _asked_for(value))
    return (test.attr,) if isinstance(test, ast.Attribute) else ()


def parse_source(path: str, content: bytes) -> Source | str:
    """Parse a file; for text that Python itself refuses, return the reason."""
    tree = _parse(content)
    if isinstance(tree, str):
        return tree
    nodes = []
    for node in ast.walk(tree):
        nodes.append(node)
        if len(nodes) > MAX_NODES:
            return f"more than {MAX_NODES} syntax nodes"
    source = Source(path, tree, nodes)
    for node in nodes:
        _note_imports(source, node)
        _note_assignments(source, node)
    return source


def argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    """Return an argument by keyword or position."""
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    if position < 0 or position >= len(call.args) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    return call.args[position]


def text_of(node: ast.AST | None) -> str:
    """Return a string constant's text, or nothing."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def plain_value(node: ast.AST | None) -> str:
    """Format a small constant as the command line would show it."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bytes | complex) or node.value is None:
        return ""
    if isinstance(node.value, int) and node.value.bit_length() > 200:
        return ""
    return str(node.value)[:200]


def _parse(content: bytes) -> ast.Module | str:
    if b"\0" in content:
        return "binary"
    reason = ""
    for form in (content, content.decode("utf-8", "replace")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(form)
        except SyntaxError as error:
            reason = reason or f"not valid Python at line {error.lineno or 0}"
        except (ValueError, RecursionError, MemoryError) as error:
            reason = reason or f"too deep or odd to parse ({type(error).__name__})"
    return reason


def _note_imports(source: Source, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            source.modules.append((alias.name, node.lineno))
            head = alias.name if alias.asname else alias.name.partition(".")[0]
            source.imports[alias.asname or head] = head
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        source.modules.append((module, node.lineno))
        for alias in node.names:
            separator = "" if module.endswith(".") else "."
            source.imports[alias.asname or alias.name] = f"{module}{separator}{alias.name}"
            source.modules.append((f"{module}{separator}{alias.name}", node.lineno))


def _note_assignments(source: Source, node: ast.AST) -> None:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _note_one(source, target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _note_one(source, target, value)
        case ast.NamedExpr(target=target, value=value):
            _note_one(source, target, value)
        case ast.withitem(context_expr=value, optional_vars=ast.Name() as target):
            _note_one(source, target, value)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for name, default in parameters(node):
                if default is not None:
                    source.assigned[name].append((node.lineno, default))
        case _:
            pass


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, ast.expr | None]]:
    """List a function's parameters with their defaults."""
    positional = [*node.args.posonlyargs, *node.args.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    pairs = list(zip(positional, [*missing, *node.args.defaults], strict=True))
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return [(argument.arg, default) for argument, default in pairs]


def _note_one(source: Source, target: ast.expr, value: ast.expr) -> None:
    name = ""
    if isinstance(target, ast.Name):
        name = target.id
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        name = target.attr
    if name:
        source.assigned[name].append((target.lineno, value))
