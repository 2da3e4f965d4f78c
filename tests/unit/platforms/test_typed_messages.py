"""Every message of the wire is typed once: kit/wire/requests.py and messages.py, and nothing else is sent."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import leasehold.platforms
from leasehold.caretaker.routes import OPERATIONS
from leasehold.kit.run.run_state import CellState, RunState
from leasehold.kit.wire.messages import CellSeen, RunSeen, Status
from leasehold.kit.wire.requests import REQUESTS

_PLATFORMS = Path(leasehold.platforms.__file__).parent
_STREAMS = [_PLATFORMS / "data_stream.py", _PLATFORMS / "state_stream.py"]
_SOURCES = [*_STREAMS, *sorted((_PLATFORMS / "engines" / "caretaker").glob("*.py"))]
_SENDERS = {"ask", "objects", "chunks", "stream", "talk"}


def sent() -> Iterator[tuple[str, list[str]]]:
    """Yield each request that is sent, with the keys that stand there by name."""
    for path in _SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            first = node.args[0] if node.args else None
            if node.func.attr in _SENDERS and isinstance(first, ast.Constant):
                yield str(first.value), [keyword.arg for keyword in node.keywords if keyword.arg]


def test_each_request_that_the_box_answers_has_a_type() -> None:
    assert set(REQUESTS) == set(OPERATIONS)


@pytest.mark.parametrize("op, keys", sorted(sent()))
def test_a_request_carries_only_its_typed_keys(op: str, keys: list[str]) -> None:
    assert set(keys) <= set(REQUESTS[op].__annotations__)


def test_the_engine_sends_every_request_but_one() -> None:
    assert set(REQUESTS) - {op for op, _ in sent()} == {"have_tree"}, "which only older homes ask"


def test_a_cells_state_has_the_typed_keys() -> None:
    assert {*CellState().as_dict(), "alive", "held"} == set(CellSeen.__annotations__)


@pytest.mark.parametrize("typed", [RunSeen, Status])
def test_a_runs_state_has_typed_keys(typed: type) -> None:
    assert set(RunState().as_dict()) <= set(typed.__annotations__)
