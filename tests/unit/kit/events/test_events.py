"""Every event that a box journals has a sentence, on the screen and in a notice, whatever its fields hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.events.failure_events import say_cell
from leasehold.kit.events.gate_lines import finding_lines, gate_line
from leasehold.kit.events.table import NOTICE_CHARS, SENTENCES, describe, notice_text, notified
from leasehold.kit.tables.topics import TOPICS

CARETAKER = Path(__file__).resolve().parents[4] / "src" / "leasehold" / "caretaker"
WRITERS = ("note", "_note", "append", "_tell", "tell")  # what is called to journal an event
SILENT = {"nag"}  # an item of the outbox, which brings its own words: no journal holds it
GARBLED = [None, 7, -1, "x\x1b[31m\n", [], [3, None], {}, {"a": 1}, 1e400]
FIELDS = (
    "alarm", "at_limit", "attempt", "before", "began", "by", "bytes", "bytes_per_s", "cached", "cards", "cell", "cells",
    "channel", "class", "code", "commit", "cores", "count", "currency", "error", "evidence", "expected_s", "file",
    "files", "findings", "first", "frameworks", "free", "freed_bytes", "fresh", "from", "from_before", "given",
    "grace_s", "have", "hint", "hook", "how", "items", "job", "kept", "left_out", "level", "limit", "limit_s", "lines",
    "link", "lost", "name", "need", "node", "outcome", "path", "percent", "phase", "pid", "pids", "problem", "reached",
    "reason", "remedy", "routes", "seen", "signal", "silent_s", "since_unix", "skipped", "spent", "stage", "state",
    "task", "tasks", "to", "took_s", "total", "tries", "unit", "unseen", "used", "verdict", "wait_s", "what", "where",
    "why", "after", "after_s",
)  # fmt: skip


def journaled() -> dict[str, str]:
    """Find the events that the caretaker's code writes: name -> file."""
    found: dict[str, str] = {}
    for path in sorted(CARETAKER.rglob("*.py")):
        for name in _names(ast.parse(path.read_text("utf-8"))):
            found.setdefault(name, path.name)
    return found


def _names(tree: ast.AST) -> Iterator[str]:
    constants = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _called(node.func) in WRITERS:
            yield from _texts(node.args[0], constants)
        elif isinstance(node, ast.Dict):  # an event that a gatherer makes
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            if "k" in keys:
                yield from _texts(node.values[keys.index("k")], constants)


def _called(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.Name):
        node = constants.get(node.id, node)
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _is_name(part.value):
            yield part.value


def _is_name(text: str) -> bool:
    return text.replace("_", "").isalpha() and text.islower()


def test_every_journaled_event_has_a_sentence() -> None:
    found = journaled()
    assert len(found) > 40, "the code that writes events is read in another way now"
    assert {name: file for name, file in found.items() if name not in SENTENCES and name not in SILENT} == {}


def test_every_sentence_is_of_an_event_that_something_writes() -> None:
    by_table = {"env_recorded", "env_judged", "task_lent"}  # their names come from a table or another module
    assert set(SENTENCES) - set(journaled()) - by_table == set()


@pytest.mark.parametrize("kind", sorted(SENTENCES))
def test_no_event_of_an_untrusted_box_breaks_a_screen_or_a_notice(kind: str) -> None:
    for garbled in ({}, *(dict.fromkeys(FIELDS, value) for value in GARBLED)):
        event = {"k": kind, **garbled}
        for line in [*describe(event).split("\n"), notice_text(event)]:
            assert line.isprintable()
        assert len(notice_text(event)) <= NOTICE_CHARS
        notified(event)


def test_an_event_of_a_newer_box_is_named() -> None:
    assert describe({"k": "moon_rose"}) == "moon rose"
    assert notified({"k": "moon_rose"}) is None


def test_every_notice_has_a_known_topic() -> None:
    assert {one.topic for one in SENTENCES.values()} - {""} <= set(TOPICS)


@pytest.mark.parametrize(
    "event, line, notice",
    [
        ({"k": "run_opened", "pid": 7}, "caretaker started, pid 7", "The run started."),
        ({"k": "cell_failed", "cell": "a", "why": "x"}, "cell a failed: x", "Cell a failed: x"),
        (
            {"k": "remedy_chosen", "remedy": "again", "wait_s": 30, "why": "first of three"},
            "remedy: run the same command again in 30 s",
            "Remedy: run the same command again in 30 s: first of three",
        ),
        (
            {"k": "disk_short", "attempt": 2, "path": "/d", "what": "bytes", "free": 5e8, "need": 2e9, "hint": "prune"},
            "no room for attempt 2: /d has 500.0 MB free, 2.0 GB needed; prune",
            "No room for attempt 2: /d has 500.0 MB free, 2.0 GB needed; prune",
        ),
        (
            {"k": "preempt_noticed", "cell": "main", "by": "SIGTERM", "grace_s": 30.0},
            "the box is being taken away (SIGTERM): about 30 s left; saving",
            "The box is being taken away (SIGTERM): about 30 s left; saving",
        ),
        (
            {"k": "attempt_ended", "cell": "b", "attempt": 3, "signal": 9},
            "b: attempt 3 was ended by signal 9",
            "b: attempt 3 was ended by signal 9",
        ),
    ],
)
def test_a_screen_and_a_notice_say_the_same(event: dict[str, Any], line: str, notice: str) -> None:
    assert (describe(event), notice_text(event)) == (line, notice)


def test_a_gate_is_shown_with_its_checks_and_what_did_not_pass() -> None:
    assert gate_line("env", "passed", 2) == "env: passed (2 checks)"
    assert gate_line("env", "refused", 0, ", skipped") == "env: refused, skipped"
    findings = [{"outcome": "passed", "what": "a"}, {"outcome": "refused", "what": "b", "hint": "c"}]
    assert list(finding_lines(findings)) == ["  NO  b", "       -> c"]


def test_a_failed_attempt_is_explained_from_its_cell() -> None:
    cell = {"classed": 1, "klass": "disk_full", "verdict": "exited", "because": "x", "remedied": 1, "remedy": "ask"}
    assert say_cell(cell, 1) == "attempt 1 failed: disk-full (exited): x; remedy: none; a person must decide"
    assert say_cell(cell, 2) == say_cell({}, 0) == ""
