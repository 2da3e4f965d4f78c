"""The handbook's page: quoting survives odd names, no section without its words. Runs under PyPy too."""

from __future__ import annotations

import re
import shlex
from typing import Any, Dict

import pytest

from leasehold.kit.run.handbook_page import render

FACTS: Dict[str, Any] = {
    "run": "toy-0123456789",
    "name": "toy",
    "command": "python train.py | tee `date`\nexit",
    "tree": "a" * 64,
    "box": "ssh:gpu1",
    "platform": "AutoDL",
    "login": "ssh -p 2222 root@gpu1",
    "project": "/home/me/it's here",
    "results": "/home/me/results",
    "again": "lease run --on ssh:gpu1",
    "elsewhere": "lease run --on OTHER --again",
    "verbs": [{"name": "release", "what": "deletes data disk | all"}],
}


def page(state: str, folder: str = "/root/.leasehold/active/toy-0123456789") -> str:
    place = {
        "folder": folder,
        "root": "/root/.leasehold",
        "care": ["/usr/bin/python3", "-I", "-S", "/p", "care", folder],
    }
    cells = {"main": {"state": "running" if state == "running" else "ended", "attempt": 3, "pid": 77}}
    return render(FACTS, place, {"state": state, "reason": "because\x1b[2J", "seq": 9, "cells": cells}, 0.0)


@pytest.mark.parametrize("state", ["running", "finished", "failed", "stopped", "unknown"])
def test_every_state_has_every_section(state: str) -> None:
    titles = re.findall(r"^## (.*)$", page(state), re.MULTILINE)
    assert len(titles) == 11
    assert "\x1b" not in page(state)


def test_a_running_run_can_be_stopped_and_a_finished_one_is_not_resumed() -> None:
    assert "stop.json" in page("running") and "-p 77" in page("running")
    assert "nothing to resume" in page("finished") and "stop.json" not in page("finished")
    assert "setsid by-hand" in page("failed") and "setsid by-hand" not in page("running")


def test_another_box_continues_by_a_move_and_the_page_says_what_to_copy() -> None:
    text = page("failed")
    assert "`lease move toy-0123456789 --to OTHER` stops it here" in text
    assert "They lie below `/root/.leasehold/active/toy-0123456789/out`." in text
    assert "mkdir -p ~/.leasehold/active/toy-0123456789-1/out" in text and "\nlease run --on OTHER --again\n" in text
    assert "step 0" not in page("finished")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"run": "toy-0123456789-4"}, "active/toy-0123456789-5/out"),
        ({"run": "toy-0123456789-b12ab34"}, "Its cells move by themselves"),
        ({"engine": "slurm"}, "Another node goes on from the checkpoint"),
    ],
)
def test_how_to_go_on_elsewhere_depends_on_the_run(change: Dict[str, Any], words: str) -> None:
    place = {"folder": "/f", "root": "/r", "care": []}
    assert words in render({**FACTS, **change}, place, {"state": "failed", "cells": {}}, 0.0)


def test_an_odd_folder_is_one_word_wherever_it_stands(odd_name: str) -> None:
    folder = "/root/%s" % odd_name.replace("\n", " ")
    text = page("running", folder)
    (line,) = [line for line in text.splitlines() if line.startswith("cd ") and "root" in line]
    assert shlex.split(line) == ["cd", folder]
    (status,) = [line for line in text.splitlines() if line.startswith("ssh ") and "/status.json" in line]
    assert shlex.split(shlex.split(status)[-1]) == ["cat", folder + "/status.json"]


def test_a_home_folder_is_left_to_the_shell() -> None:
    assert "cd ~/.leasehold/active/toy\n" in page("running", "~/.leasehold/active/toy")


def test_a_table_survives_what_it_holds() -> None:
    assert "| release | deletes data disk \\| all |" in page("finished")
    assert "| command | `python train.py \\| tee 'date' exit` |" in page("finished")
