"""The run over public corpora: how it judges, what its table says, and that its canaries and its watch can fail it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.corpora import watch
from bench.corpora.judge import OURS, File, failures, judge, table
from bench.corpora.make_hostile import canaries, wraps
from bench.corpora.scanners import leasehold
from bench.corpora.stock import truth_of

_ROOT = Path(__file__).resolve().parents[3]
_QUIET: dict[str, Any] = {"hang": False, "signs": [], "cpu_s": 0.1, "peak_bytes": 20 << 20, "seconds": 0.2}


def _answer(said: str, view: str = "scan", **more: Any) -> dict[str, Any]:
    return {**_QUIET, "views": {view: (said, "")}, **more}


def _file(truth: str = "attack", valid: bool = False, path: str = "a/x.pt", size: int = 1000) -> File:
    return File("corpus", path, truth, size, valid)


def test_a_malicious_file_called_plain_is_missed_and_one_not_read_is_not() -> None:
    assert judge("picklescan", _file(), _answer("plain")).missed
    assert not judge("picklescan", _file(), _answer("refused")).missed
    unread = judge("picklescan", _file(), _answer("unread"))
    assert unread.unread and not unread.missed


def test_one_view_that_takes_a_malicious_file_is_a_miss() -> None:
    both = {**_QUIET, "views": {"torch": ("refused", ""), "checkpoint": ("plain", "")}}
    assert judge(OURS, _file(), both).missed


def test_a_models_own_classes_must_be_named_by_us_alone() -> None:
    assert judge(OURS, _file("code"), _answer("plain")).missed
    assert not judge("modelscan", _file("code"), _answer("plain")).missed


def test_a_refused_valid_file_is_a_false_alarm() -> None:
    assert judge(OURS, _file("plain", valid=True), _answer("refused", "torch")).alarm
    assert not judge(OURS, _file("plain", valid=True), _answer("plain", "torch")).alarm
    assert judge(OURS, _file("plain", valid=True), _answer("code", "torch")).alarm
    assert not judge(OURS, _file("code", valid=True), _answer("code", "torch")).alarm


def test_a_valid_table_need_be_no_checkpoint() -> None:
    views = {**_QUIET, "views": {"csv": ("plain", ""), "checkpoint": ("refused", "")}}
    assert not judge(OURS, _file("plain", valid=True, path="a/x.csv"), views).alarm


def test_signs_hangs_memory_and_time_are_counted() -> None:
    bad = judge(OURS, _file(), _answer("refused", signs=["os.system"], hang=True, peak_bytes=2 << 30, cpu_s=6.0))
    assert bad.executed and bad.hang and bad.fat and bad.slow
    assert not judge(OURS, _file(size=200_000_000), _answer("refused", cpu_s=6.0)).slow


def test_every_bar_that_is_not_reached_is_named() -> None:
    good = [judge(OURS, _file("plain", valid=True), _answer("plain", "torch"))] * 297
    alarms = [judge(OURS, _file("plain", valid=True), _answer("refused", "torch"))]
    caught = judge(OURS, _file(), _answer("refused"))
    assert failures([*good, *alarms * 3, caught]) == []
    assert failures([*good, *alarms * 4, caught]) == ["4 false alarms in 301 valid files, more than 1 %"]
    assert failures([*good, caught]) == ["only 297 valid files were read; 300 are needed"]
    assert failures([*good, *alarms * 3]) == ["no malicious file was read"]
    missed = judge(OURS, _file(), _answer("plain", path="x"))
    assert failures([*good, *alarms * 3, caught, missed]) == ["missed: a/x.pt (scan: plain )"]
    theirs = judge("picklescan", _file(), _answer("plain"))
    assert failures([*good, *alarms * 3, caught, theirs]) == []


def test_the_table_has_a_row_a_corpus_and_tool_and_one_for_all() -> None:
    outcomes = [
        judge(OURS, _file(), _answer("refused", seconds=3.0)),
        judge(OURS, _file("plain", valid=True), _answer("refused", "torch", seconds=1.0)),
        judge("picklescan", _file(), _answer("plain")),
    ]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table(outcomes, (OURS, "picklescan")).split("\n")
    ]
    assert [line[:2] for line in lines[2:]] == [
        ["corpus", OURS], ["corpus", "picklescan"], ["all", OURS], ["all", "picklescan"],
    ]  # fmt: skip
    ours, theirs = dict(zip(lines[0], lines[2], strict=True)), dict(zip(lines[0], lines[3], strict=True))
    assert (ours["files"], ours["missed"], ours["false alarms"], ours["median"]) == ("2", "0", "1 (100.0 %)", "2.00 s")
    assert (theirs["malicious"], theirs["missed"], theirs["false alarms"]) == ("1", "1", "-")


@pytest.mark.parametrize(
    ("named", "truth"),
    [
        ("posix system", "attack"), ("torch.storage _load_from_bytes", "attack"), ("builtins eval", "attack"),
        ("torch.nn.modules.linear Linear", "code"), ("sklearn.svm._classes SVC", "code"),
    ],
)  # fmt: skip
def test_what_a_library_would_name_makes_the_truth(named: str, truth: str) -> None:
    assert truth_of({"pickle": "fails: UnpicklingError", "torch": f"names {named}"}) == truth
    assert truth_of({"pickle": "loads"}) == "plain"


def test_canaries_leave_their_trace_where_they_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    for name, payload in canaries(tmp_path / "trace").items():
        pickle.loads(payload)
        left = list((tmp_path / "trace").iterdir())
        assert left, name
        for each in left:
            each.rmdir() if each.is_dir() else each.unlink()


def test_no_wrapped_canary_is_plain_data_or_runs(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    payload = canaries(tmp_path / "trace")["mkdir-2"]
    ask = leasehold()
    for way, write in wraps(payload):
        write(tmp_path / way)
        views = ask(str(tmp_path / way))
        assert views and all(said != "plain" for said, _ in views.values()), (way, views)
    assert list((tmp_path / "trace").iterdir()) == []


def test_the_watch_leaves_a_sign_of_an_act_and_none_of_reading(tmp_path: Path) -> None:
    signs, program = tmp_path / "signs", tmp_path / "program.py"
    signs.mkdir()
    command = [sys.executable, watch.__file__, str(signs), "-I", "-S", "-B", str(program)]
    program.write_text(f"open({str(program)!r}).read()")
    subprocess.run(command, check=True)
    assert os.listdir(signs) == []
    program.write_text("import pickle; pickle.loads(b'cposixpath\\nisabs\\n.')")
    subprocess.run(command, check=True)
    assert os.listdir(signs) == ["pickle.find_class-posixpath-isabs"]


def test_a_generator_gets_stand_ins_for_what_is_missing(tmp_path: Path) -> None:
    generator = tmp_path / "generator.py"
    generator.write_text(
        "import json, os, pickle, no_such_module.deeper as deeper\n"
        "class Evil:\n    def __reduce__(self): return json.no_such_function, (deeper.call,)\n"
        "pickle.dump(Evil(), open(os.path.dirname(__file__) + '/made.pkl', 'wb'), 2)\n"
    )
    program = _ROOT / "bench" / "corpora" / "run_generator.py"
    subprocess.run([sys.executable, str(program), str(generator)], check=True, capture_output=True)
    made = (tmp_path / "made.pkl").read_bytes()
    assert b"no_such_function" in made and b"no_such_module.deeper" in made
