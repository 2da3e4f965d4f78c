"""Recognize resume flags by use: the code loads the named file and continues from its step or optimizer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from leasehold.lifecycle.init.text.project_facts import Flag, Role, Style
from leasehold.lifecycle.init.text.source import Source, argument, text_of

_LOADS = "torch.load"
# Such a flag may also name initial weights: what is read from the file decides.
_NAMED = re.compile(r"(?:\w+_)?(?:ckpt|checkpoint|snapshot)(?:_(?:path|file))?|load(?:_path|_file|_model|_state)?")
_GOES_ON = re.compile(
    r"(?:start_|global_|last_)?(?:epoch|step|iter|iteration|iter_num|update)s?|(?:optim(?:izer)?|opt)(?:_state(?:_dict)?)?"
)


def with_resume_flags(flags: tuple[Flag, ...], near: Iterable[Source]) -> tuple[Flag, ...]:
    """Give the resume role to flags whose file is loaded and continued from."""
    options = (flag for flag in flags if flag.role is Role.OTHER and flag.style in (Style.OPTION, Style.JOINED))
    names = {flag.attribute for flag in options if _NAMED.fullmatch(flag.attribute.lower())}
    resuming = {name for source in near for name in _gone_on_from(source, names)} if names else set()
    return tuple(replace(flag, role=Role.RESUME) if flag.attribute in resuming else flag for flag in flags)


def _gone_on_from(source: Source, names: set[str]) -> Iterator[str]:
    read = set(_read_out(source))
    for loaded, values in source.assigned.items():
        for _, value in values if loaded in read else ():
            if isinstance(value, ast.Call) and source.dotted(value.func) == _LOADS:
                given = argument(value, 0, "f")
                name = given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", "")
                if name in names:
                    yield name


def _read_out(source: Source) -> Iterator[str]:
    """Yield the names of mappings from which a step, an epoch or an optimizer is read."""
    for node in source.nodes:
        of, key = None, ""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            of, key = node.value, text_of(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            of, key = node.func.value, text_of(node.args[0]) if node.args else ""
        if isinstance(of, ast.Name) and _GOES_ON.fullmatch(key):
            yield of.id
