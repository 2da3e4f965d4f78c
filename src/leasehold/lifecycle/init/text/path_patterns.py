"""Turn an expression that names a file into a pattern: constants stay, parts known only at run time become `*`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from leasehold.kit.files.paths import UnsafePath, check_relative

from .project_facts import Base
from .source import Source, argument, text_of

# Private marks inside a partly read path. Text from a project cannot contain them: they are removed from it.
_OUT, _UNKNOWN, _FLAG, _FLAG_END = "\ue000", "\ue001", "\ue002", "\ue003"
_MARKS = re.compile("[\ue000-\ue003]")
_MAX_DEPTH = 12
_MAX_LENGTH = 300
_PASS_THROUGH = ("str", "os.fspath", "os.path.abspath", "os.path.expanduser", "os.path.realpath", "os.path.normpath")
_PATHS = ("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "Path", "epath.Path", "etils.epath.Path")
_SETTINGS = ("args", "cfg", "config", "conf", "opt", "opts", "options", "hparams", "params", "flags", "FLAGS")
_PERCENT = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class Target:
    """Where something is written: a base, and a pattern below it. An empty pattern is unknown."""

    base: Base
    pattern: str
    flag: str = ""


@dataclass(frozen=True)
class PathReader:
    """Reads path expressions of one file; flag_names are the output settings of the command line.

    With `sought`, flag_names are settings of any name, and it finds those that a written path begins with.
    """

    source: Source
    flag_names: frozenset[str]
    sought: bool = False

    def target(self, node: ast.expr | None, suffix: str = "") -> Target:
        """Read an expression as the path of a written file."""
        text = self._read(node, getattr(node, "lineno", 0), 0) if node is not None else _UNKNOWN
        return self._target(text + suffix if not text.endswith(suffix) else text)

    def folder(self, node: ast.expr | None, inside: str) -> Target:
        """Read an expression as the folder of a written file."""
        text = self._read(node, getattr(node, "lineno", 0), 0) if node is not None else _UNKNOWN
        return self._target(f"{text}/{inside}")

    def literal(self, node: ast.expr | None) -> str:
        """Return the text of a wholly constant expression."""
        text = self._read(node, getattr(node, "lineno", 0), 0) if node is not None else ""
        return "" if _MARKS.search(text) else text

    def _target(self, text: str) -> Target:
        if self.sought and not re.match(f"{_FLAG}[^{_FLAG_END}]+{_FLAG_END}(?:/|\\Z)", text):
            return Target(Base.UNKNOWN, "")  # a setting that is only part of a name is not a folder
        return _normal(text)

    def _read(self, node: ast.expr, line: int, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return _UNKNOWN
        text = self._read_shape(node, line, depth)
        return text if len(text) <= _MAX_LENGTH else _UNKNOWN

    def _read_shape(self, node: ast.expr, line: int, depth: int) -> str:
        match node:
            case ast.Constant(value=str() as text):
                return _MARKS.sub("", text)
            case ast.Constant(value=int() as number) if number.bit_length() < 64:
                return str(number)
            case ast.JoinedStr(values=values):
                return "".join(self._read(part, line, depth + 1) for part in values)
            case ast.FormattedValue(value=value):
                return self._read(value, line, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._read(left, line, depth + 1) + self._read(right, line, depth + 1)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._read(left, line, depth + 1) + "/" + self._read(right, line, depth + 1)
            case ast.BinOp(left=left, op=ast.Mod()):
                return _PERCENT.sub(_UNKNOWN, self._read(left, line, depth + 1))
            case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first) | ast.NamedExpr(value=first):
                return self._read(first, line, depth + 1)
            case ast.Call():
                return self._read_call(node, line, depth)
            case ast.Subscript():
                return self._read_key(node)
            case ast.Name(id=name):
                return self._read_name(name, line, depth)
            case ast.Attribute():
                return self._read_attribute(node, line, depth)
            case _:
                return _UNKNOWN

    def _read_call(self, call: ast.Call, line: int, depth: int) -> str:
        name = self.source.dotted(call.func)
        last = name.rpartition(".")[2]
        if name in ("os.environ.get", "os.getenv"):
            return self._read_environment(call, line, depth)
        if name.endswith(("path.join", "osp.join")) or name in _PATHS:
            return "/".join(self._read(part, line, depth + 1) for part in call.args) if call.args else "."
        if name in _PASS_THROUGH and call.args:
            return self._read(call.args[0], line, depth + 1)
        if not isinstance(call.func, ast.Attribute):
            return _UNKNOWN
        inner = call.func.value
        if last == "format" and isinstance(inner, ast.Constant):
            return _BRACES.sub(_UNKNOWN, text_of(inner))
        if last == "joinpath":
            return "/".join(self._read(part, line, depth + 1) for part in [inner, *call.args])
        if last == "with_suffix":
            return re.sub(r"\.[^./]*\Z", "", self._read(inner, line, depth + 1)) + text_of(argument(call, 0))
        if last in ("resolve", "absolute", "as_posix", "expanduser"):
            return self._read(inner, line, depth + 1)
        return _UNKNOWN

    def _read_environment(self, call: ast.Call, line: int, depth: int) -> str:
        if text_of(argument(call, 0, "key")) == "LEASE_OUT":
            return _OUT
        default = argument(call, 1, "default")
        return self._read(default, line, depth + 1) if default is not None else _UNKNOWN

    def _read_key(self, node: ast.Subscript) -> str:
        key = text_of(node.slice)
        if key == "LEASE_OUT":
            return _OUT
        return _flag(key) if self._settable(key) else _UNKNOWN

    def _read_name(self, name: str, line: int, depth: int) -> str:
        found = self.source.last_assigned(name, line + 1)
        settable = self._settable(name) and not self.sought
        if found is None and not settable:
            given = self.source.given(name, line)
            return self._read(given[1], given[0], depth + 1) if given is not None else _UNKNOWN
        if found is None:
            return _flag(name)
        at, value = found
        if isinstance(value, ast.Constant) and settable:
            return _flag(name)
        if isinstance(value, ast.Constant) and not isinstance(value.value, str):
            return _UNKNOWN  # a counter: its initial value means nothing
        return self._read(value, at - 1, depth + 1)

    def _read_attribute(self, node: ast.Attribute, line: int, depth: int) -> str:
        holder = node.value
        name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
        settings = name in _SETTINGS or name.endswith("_args")
        if settings and self._settable(node.attr):
            return _flag(node.attr)
        if isinstance(holder, ast.Name) and holder.id == "self":
            return self._read_name(node.attr, line, depth)
        return _flag(node.attr) if self._settable(node.attr) and not self.sought else _UNKNOWN

    def _settable(self, name: str) -> bool:
        return name.lower() in self.flag_names


def _flag(name: str) -> str:
    return f"{_FLAG}{name.lower()}{_FLAG_END}"


def _normal(text: str) -> Target:
    base, flag, rest = _split_base(_BRACES.sub(_UNKNOWN, text))
    segments = []
    for segment in rest.split("/"):
        if segment in ("", "."):
            continue
        if segment == "..":
            return Target(Base.UNKNOWN, "")
        whole = segment == "**" or segment.strip(_UNKNOWN) == ""
        segments.append("**" if whole else re.sub(r"\*{2,}", "*", re.sub("[\ue000-\ue003]+", "*", segment)))
    folders, last = segments[:-1], segments[-1] if segments else ""
    pattern = "/".join([*_fold(folders), last]) if last not in ("", "**") else ""
    return Target(base, checked_pattern(pattern), flag)


def _split_base(text: str) -> tuple[Base, str, str]:
    if _OUT in text:
        return Base.OUT, "", text.rpartition(_OUT)[2]
    if _FLAG_END in text:
        before, _, rest = text.rpartition(_FLAG_END)
        return Base.FLAG, before.rpartition(_FLAG)[2], rest
    if text.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]|\w+://", text):
        return Base.ELSEWHERE, "", text.lstrip("/~")
    first = text.partition("/")[0]
    return (Base.UNKNOWN if first.strip(_UNKNOWN) == "" else Base.HERE), "", text


def _fold(folders: list[str]) -> list[str]:
    """Drop a `**` that follows another."""
    return [name for place, name in enumerate(folders) if name != "**" or place == 0 or folders[place - 1] != "**"]


def checked_pattern(pattern: str) -> str:
    """Return a pattern that a job file may contain, or nothing."""
    pattern = re.sub(r"[\[\]]", "?", pattern)
    if not pattern or not pattern.isprintable() or pattern.strip("*?./") == "" or len(pattern) > _MAX_LENGTH:
        return ""
    try:
        return check_relative(pattern)
    except UnsafePath:
        return ""
