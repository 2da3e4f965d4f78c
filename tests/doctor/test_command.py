"""`lease doctor` and `lease lint` as typed: targets, exit codes, --json."""

from __future__ import annotations

import io
import json
import sys

import pytest

from leasehold.shells.cli.main import main

FULL = "epoch 1\nOSError: [Errno 28] No space left on device\n"


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LEASEHOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")


def answer(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr()


def test_a_log_is_diagnosed_and_the_exit_code_tells(tmp_path, odd_name, capsys):
    log = tmp_path / odd_name
    log.write_text(FULL)
    code, said = answer(capsys, "doctor", str(log))
    assert code == 1
    assert "1. U6" in said.out
    assert "retry: no" in said.out
    log.write_text("epoch 1\nepoch 2\n")
    code, said = answer(capsys, "doctor", str(log))
    assert code == 0
    assert said.out == ""


def test_json_lists_findings_in_rank_order(tmp_path, capsys):
    log = tmp_path / "t.log"
    log.write_text(FULL)
    code, said = answer(capsys, "doctor", str(log), "--json", "--exit-code", "1")
    value = json.loads(said.out)
    assert (code, [finding["id"] for finding in value["findings"]]) == (1, ["U6"])
    assert value["findings"][0]["evidence"][0]["line"] == 2


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FULL.encode())))
    code, said = answer(capsys, "doctor", "-")
    assert code == 1
    assert "U6" in said.out


def test_a_folder_of_rank_logs_is_one_run(tmp_path, capsys):
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    (tmp_path / "0" / "stderr.log").write_text("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(x)\n")
    (tmp_path / "1" / "stderr.log").write_text("RuntimeError: element 0 of tensors does not require grad\n")
    _, said = answer(capsys, "doctor", str(tmp_path), "--json")
    first = json.loads(said.out)["findings"][0]
    assert (first["id"], first["evidence"][0]["rank"]) == ("O3", 1)
    assert "rank 1 failed first" in first["note"]


def test_an_id_is_explained_and_words_are_searched(capsys):
    code, said = answer(capsys, "doctor", "GEN4")
    assert code == 0
    assert said.out.startswith("U26 ")
    code, said = answer(capsys, "doctor", "--search", "显存不足", "--json")
    assert code == 0
    assert json.loads(said.out)["entries"][0]["id"] == "U10"


def test_a_target_that_is_nothing_says_what_it_can_be(capsys):
    code, said = answer(capsys, "doctor", "no-such-thing")
    assert code == 2
    assert "doctor.nothing_there" in said.err
    assert "lease status" in said.err


def test_without_a_target_it_says_how(capsys):
    code, said = answer(capsys, "doctor")
    assert code == 2
    assert "--search" in said.err


def test_lint_says_place_rule_and_remedy(tmp_path, capsys):
    source = tmp_path / "train.py"
    source.write_text("sampler = DistributedSampler(data)\n")
    code, said = answer(capsys, "lint", str(source))
    assert code == 1
    assert f"{source}:1: set-epoch (D22)" in said.out
    source.write_text("x = 1\n")
    assert answer(capsys, "lint", str(source))[0] == 0


def test_the_box_itself_can_be_asked(capsys):
    code, said = answer(capsys, "doctor", "local", "--json")
    assert code in (0, 1)
    assert [log["name"] for log in json.loads(said.out)["read"]] == ["readings"]
