"""How an attempt ended: the child's own code, or the signal that ended it; written once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.attempt.keeper import exit_record, own_argv, write_exit
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json


def record_of(script: str) -> Dict[str, Any]:
    """Run a script under /bin/sh as the keeper does and spell its wait status."""
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["/bin/sh", "-c", script])
    return exit_record(os.waitpid(pid, 0)[1], "keeper")


@pytest.mark.parametrize("code", [0, 1, 2, 17, 126, 127, 128, 193, 255])
def test_a_code_is_the_childs_own(code: int) -> None:
    record = record_of("exit %d" % code)
    assert (record["code"], record["signal"], record["by"]) == (code, None, "keeper")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
def test_a_signal_is_named_and_there_is_no_code(number: int) -> None:
    record = record_of("kill -%d $$" % number)
    assert (record["code"], record["signal"]) == (None, number)


def test_a_shells_report_of_its_childs_signal_counts_as_that_signal() -> None:
    record = record_of("sh -c 'kill -9 $$'; exit $?")
    assert (record["code"], record["signal"]) == (137, 9)


def test_a_record_says_when() -> None:
    assert record_of("exit 0")["ended_unix"] > 1_000_000_000


def test_the_first_record_stands(tmp_path: Path) -> None:
    """Keeper and caretaker may both see an end; the one who waited for the child writes first."""
    write_exit(RunFolder(str(tmp_path)), str(tmp_path), {"code": 17, "by": "keeper"})
    write_exit(RunFolder(str(tmp_path)), str(tmp_path), {"code": None, "by": "caretaker"})
    assert read_json(str(tmp_path / "exit.json")) == {"code": 17, "by": "keeper"}


def test_our_own_command_line_runs_the_same_parcel_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/parcel"])
    assert own_argv("care", "/run") == [sys.executable, "-I", "-S", "/parcel", "care", "/run"]


def test_an_unknown_door_says_how_to_call_it() -> None:
    source = str(Path(__file__).resolve().parents[4] / "src")
    program = "import sys; from leasehold.caretaker.entry import main; sys.exit(main(sys.argv[1:]))"
    said = subprocess.run(
        [sys.executable, "-c", program, "nonsense"],
        env={**os.environ, "PYTHONPATH": source},
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (said.returncode, said.stderr[:6]) == (64, b"usage:")
