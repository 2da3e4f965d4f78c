"""Resolve renames after writes: a file saved under a temporary name is promised under its final name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from leasehold.kit.tables.file_endings import guess_kind
from leasehold.lifecycle.init.text.path_patterns import PathReader, Target
from leasehold.lifecycle.init.text.project_facts import Output
from leasehold.lifecycle.init.text.source import argument

from .saved import kind_of
from .wrappers import RENAME_METHODS, RENAMES


def settle(outputs: list[Output], reader: PathReader) -> list[Output]:
    """Give each output its final name; list one that a rename makes equal to another only once."""
    moves = list(_moves(reader))
    settled: dict[tuple[str, str, str], Output] = {}
    for output in outputs:
        final = next((end for start, end in moves if _same(start, output)), None)
        if final is not None:
            output = _renamed(output, final)
        settled.setdefault((output.base.name, output.flag, output.pattern), output)
    return list(settled.values())


def _moves(reader: PathReader) -> Iterator[tuple[Target, Target]]:
    for call, name in reader.source.calls():
        if name in RENAMES:
            start, end = argument(call, 0, "src"), argument(call, 1, "dst")
        elif isinstance(call.func, ast.Attribute) and call.func.attr in RENAME_METHODS and len(call.args) == 1:
            start, end = call.func.value, argument(call, 0, "target")
        else:
            continue
        first, last = reader.target(start), reader.target(end)
        if first.pattern and last.pattern:
            yield first, last


def _same(target: Target, output: Output) -> bool:
    return (target.base, target.flag, target.pattern) == (output.base, output.flag, output.pattern)


def _renamed(output: Output, final: Target) -> Output:
    guessed = guess_kind(final.pattern)
    loads = guessed if guessed != "bytes" and output.loads in ("bytes", "json", "csv") else output.loads
    kind = kind_of(final.pattern, loads, output.kind)
    return replace(output, pattern=final.pattern, base=final.base, flag=final.flag, loads=loads, kind=kind, moved=True)
