"""Colours on a real terminal: a field has its own, and what goes into a pipe has none."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from leasehold.shells.cli import output
from tests.support.front import LEASE, Front, front
from tests.support.lives import eventually

RED, YELLOW, END = "\x1b[31m", "\x1b[33m", "\x1b[0m"
FAILS = "raise ValueError('no such dataset')\n"
ONE_FAILS = """
import json, os, sys
params = json.loads(os.environ["LEASE_PARAMS"])
with open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w") as file:
    json.dump({"loss": 0.5}, file)
if not params["good"]:
    raise ValueError("no such dataset")
"""
OOM_LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
EMPTY_WEIGHTS = "\x02" + "\0" * 7 + "{}"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose terminal shows colours."""
    with front(tmp_path / "me") as someone:
        someone.environment.update(TERM="xterm", COLUMNS="200")
        someone.environment.pop("NO_COLOR")
        yield someone


def on_terminal(me: Front, *words: str, stdout_too: bool = True) -> tuple[int, str, str]:
    """Type a command; return its exit code, what stdout got and what the terminal got."""
    ours, terminal = pty.openpty()
    seen: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, seen))
    reader.start()
    try:
        done = subprocess.run(
            [*LEASE, *words],
            cwd=me.project,
            env=me.environment,
            stdin=subprocess.DEVNULL,
            stdout=terminal if stdout_too else subprocess.PIPE,
            stderr=terminal,
            check=False,
        )
    finally:
        os.close(terminal)
        reader.join()
        os.close(ours)
    return done.returncode, (done.stdout or b"").decode(), b"".join(seen).decode().replace("\r\n", "\n")


def _drain(ours: int, seen: list[bytes]) -> None:
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # the last process that had the terminal is gone
            return
        if not some:
            return
        seen.append(some)


def test_the_state_of_a_run_is_coloured_and_not_its_name(me: Front) -> None:
    me.write("train.py", FAILS)
    me.job(name="failed-unknown", attempts=1)
    assert me.lease("run").code == 6
    code, _, screen = on_terminal(me, "status")
    assert code == 0, screen
    row = screen.splitlines()[1]
    assert re.fullmatch(rf"failed-unknown-\w+  {re.escape(RED)}failed{re.escape(END)} +local .*", row), repr(row)


def test_a_box_named_unknown_keeps_its_plain_name(me: Front) -> None:
    added = me.lease("box", "add", "unknown", "ssh -p 2222 root@127.0.0.1", "--platform", "generic-ssh", "--no-contact")
    assert added.code == 0, added.said
    code, _, screen = on_terminal(me, "box", "list")
    assert code == 0, screen
    row = next(line for line in screen.splitlines() if "127.0.0.1" in line)
    assert row.startswith("unknown  "), repr(row)
    assert row.count(f"{YELLOW}unknown{END}") == 1, repr(row)


def test_every_state_of_a_cell_can_be_shown_on_a_terminal(me: Front) -> None:
    me.write("train.py", ONE_FAILS)
    me.job(name="sweep", cells=[{"name": "failed", "good": 1}, {"name": "home", "good": 0}], attempts=1)
    started = me.lease("run", "--detach", "--skip-gate", "launch", "--because", "the second cell fails at once")
    assert started.code == 0, started.said
    counts = {"on the box": 1, "failed": 1}
    eventually(lambda: json.loads(me.lease("sweep", "status", "sweep", "--json").out)["counts"] == counts)
    code, _, screen = on_terminal(me, "sweep", "reconcile", "sweep")
    assert code == 3, screen
    assert "  failed  on the box local" in screen, repr(screen)
    assert f"  home    {RED}failed    {END} local" in screen, repr(screen)


def test_no_colour_leaves_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "shows_colour", lambda stream: True)
    assert [output.paint("on the box", ""), output.paint_data("on the box", "")] == ["on the box"] * 2


WHEN_PIPED: Mapping[str, Sequence[str]] = {
    "plan": ["plan", "--on", "local"],
    "plan of many": ["plan", "--on", "all"],
    "doctor": ["doctor", "oom.log"],
    "check": ["check", "env"],
    "ckpt": ["ckpt", "inspect", "weights.safetensors"],
    "status": ["status"],
    "gpu": ["gpu", "local"],
}


@pytest.mark.parametrize("words", list(WHEN_PIPED.values()), ids=list(WHEN_PIPED))
def test_data_in_a_pipe_has_no_colours_though_messages_go_to_a_terminal(me: Front, words: list[str]) -> None:
    me.write("train.py", FAILS)
    me.write("oom.log", OOM_LOG)
    me.write("weights.safetensors", EMPTY_WEIGHTS)
    me.job()
    code, out, screen = on_terminal(me, *words, stdout_too=False)
    assert code in (0, 1, 3, 4), screen
    assert "\x1b" not in out, repr(out)


@pytest.mark.parametrize("way, foreign", [("data", "paint"), ("say", "paint_data")])
def test_no_screen_mixes_up_the_colours_of_its_two_streams(way: str, foreign: str) -> None:
    sources = sorted(Path(output.__file__).parent.glob("*.py"))
    mixed = [
        f"{path.name}:{inner.lineno}"
        for path in sources
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _calls(call, way)
        for inner in ast.walk(call)
        if _calls(inner, foreign)
    ]
    assert mixed == []


def _calls(node: ast.AST, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", "")) == name
