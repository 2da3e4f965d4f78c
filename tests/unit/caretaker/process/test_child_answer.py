"""A child that answers through a pipe: once, within its time, and told again when it dies without a word."""

from __future__ import annotations

import os
import py_compile
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import pytest

from leasehold.caretaker.process import child_answer as module
from leasehold.caretaker.process.child_answer import Errand


@pytest.fixture(autouse=True)
def reaped() -> Iterator[None]:
    yield
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break


def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "parcel.py"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(path)])


def run(errand: Errand, *door: str) -> Dict[str, Any]:
    answer: Optional[Dict[str, Any]] = None
    until = time.monotonic() + 30
    while answer is None and time.monotonic() < until:
        answer = errand.step(*door)
        time.sleep(0.005)
    assert answer is not None
    return answer


def test_the_answer_comes_through_the_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, monkeypatch, 'import sys, json; print(json.dumps({"asked": sys.argv[1:]}))')
    assert run(Errand(30, lambda: None), "judge", "main") == {"asked": ["judge", "main"]}


def test_a_child_that_dies_without_a_word_is_sent_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = tmp_path / "tries"
    script(tmp_path, monkeypatch, "open(%r, 'a').write('x'); raise SystemExit(1)" % str(tries))
    assert run(Errand(30, lambda: None), "judge") == {"problem": "it died without an answer"}
    assert tries.read_text() == "xx"


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, monkeypatch, "import time; time.sleep(600)")
    assert "no answer within" in run(Errand(0.3, lambda: None), "judge")["problem"]


def test_a_child_that_never_stops_talking_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, monkeypatch, "import os\nwhile True: os.write(1, b'x' * 4096)")
    assert "problem" in run(Errand(5, lambda: None), "judge")


def test_an_answer_has_a_bound(capfd: pytest.CaptureFixture[str]) -> None:
    module.answer({"text": "x" * 100_000})
    assert len(capfd.readouterr().out) <= 60_000


def test_a_torn_cache_of_bytecode_does_not_cost_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python leaves half a .pyc on a full disk, and then cannot import that module any more."""
    (tmp_path / "part.py").write_text("said = 'whole'\n")
    text = "import sys; sys.path.insert(0, %r); import part, json; print(json.dumps({'said': part.said}))"
    script(tmp_path, monkeypatch, text % str(tmp_path))
    cached = Path(py_compile.compile(str(tmp_path / "part.py")) or "")
    cached.write_bytes(cached.read_bytes()[:40])
    assert run(Errand(30, lambda: None), "judge") == {"said": "whole"}
