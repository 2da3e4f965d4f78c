"""A sweep whose parameters nothing reads is told of before it is paid for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasehold.lifecycle.preflight.unread_parameters import unread
from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.project.job_yaml import read_job

GRID = {"grid": {"lr": [0.1, 0.2], "width": [8, 16]}, "seeds": 2}


def said(folder: Path, code: str = "print('hello')\n", **words: object) -> str:
    (folder / "train.py").write_text(code)
    job = {"name": "toy", "run": "python train.py", "artifacts": ["m.json"], "cells": GRID, **words}
    (folder / "lease.yaml").write_text(json.dumps(job))
    return unread(read_job(folder / "lease.yaml"), read_tree(folder, "lease.yaml"))


def test_parameters_that_nothing_reads_are_named_with_what_to_write(tmp_path):
    warning = said(tmp_path)
    assert "nothing reads lr, width, seed" in warning
    assert "write {{lr}} in `run`, or read $LEASE_PARAM_lr in the code" in warning


def test_one_that_is_forgotten_in_the_command_is_named_alone(tmp_path):
    assert "nothing reads width:" in said(tmp_path, run="python train.py {{lr}} {{seed}}")


@pytest.mark.parametrize(
    "code",
    ["os.environ['LEASE_PARAM_lr']", "json.loads(os.environ['LEASE_PARAMS'])", "os.environ['LEASE_CELL']"],
)
def test_code_that_reads_them_is_believed(tmp_path, code):
    assert said(tmp_path, code=code) == ""


@pytest.mark.parametrize("run", ["python t.py {{lr}} {{width}} {{seed}}", "t $LEASE_PARAMS", "python t.py {{cell}}"])
def test_commands_that_name_them_all_are_fine(tmp_path, run):
    assert said(tmp_path, run=run) == ""


def test_a_parameter_that_is_the_same_everywhere_need_not_be_read(tmp_path):
    assert said(tmp_path, cells=[{"name": "a", "lr": 1}], run="true") == ""
