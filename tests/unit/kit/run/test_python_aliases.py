"""`python` and `python3` both mean something on every box, and a box's own choice is never overruled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from leasehold.kit.run.python_aliases import with_python

_SAY = "import sys; print(sys.argv[1:])"


def folder_with(place: Path, *names: str) -> Path:
    """Make a folder whose programs say their own name."""
    place.mkdir()
    for name in names:
        (place / name).write_text("#!/bin/sh\necho own %s\n" % name)
        (place / name).chmod(0o755)
    return place


def said(environ: Dict[str, str], *words: str) -> List[str]:
    """Run a command line's words as a trainer's shell would."""
    shell = subprocess.run(["/bin/sh", "-c", '"$@"', "sh", *words], env=environ, stdout=subprocess.PIPE, check=True)
    return shell.stdout.decode().splitlines()


def test_a_box_with_both_keeps_its_path_and_nothing_is_written(tmp_path: Path) -> None:
    tools = folder_with(tmp_path / "tools", "python", "python3")
    assert with_python({"PATH": str(tools), "A": "b"}, str(tmp_path / "root")) == {"PATH": str(tools), "A": "b"}
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(("there", "asked"), [("python", "python3"), ("python3", "python")])
def test_the_one_that_is_there_stands_in_for_the_other(tmp_path: Path, odd_name: str, there: str, asked: str) -> None:
    tools = folder_with(tmp_path / odd_name, there)
    environ = with_python({"PATH": str(tools)}, str(tmp_path / "root"))
    assert said(environ, asked) == said(environ, there) == ["own " + there]


def test_a_path_without_any_finds_ours_and_what_lies_beside_it(tmp_path: Path) -> None:
    empty = folder_with(tmp_path / "empty")
    environ = with_python({"PATH": str(empty)}, str(tmp_path / "root"))
    assert os.path.dirname(sys.executable) in environ["PATH"].split(os.pathsep)
    for name in ("python", "python3"):
        assert said(environ, name, "-I", "-S", "-c", _SAY, "two words", "") == [str(["two words", ""])]


def test_asking_again_leaves_the_stand_in_alone(tmp_path: Path) -> None:
    tools = folder_with(tmp_path / "tools", "python")
    first = with_python({"PATH": str(tools)}, str(tmp_path / "root"))
    kept = os.stat(str(tmp_path / "root" / "bin" / "python3"))
    assert with_python({"PATH": str(tools)}, str(tmp_path / "root")) == first
    assert os.stat(str(tmp_path / "root" / "bin" / "python3")).st_ino == kept.st_ino


def test_a_stand_in_for_what_is_no_longer_there_is_replaced(tmp_path: Path) -> None:
    old = folder_with(tmp_path / "old", "python")
    with_python({"PATH": str(old)}, str(tmp_path / "root"))
    (old / "python").unlink()
    new = folder_with(tmp_path / "new", "python")
    environ = with_python({"PATH": "%s:%s" % (old, new)}, str(tmp_path / "root"))
    assert said(environ, "python3") == ["own python"]
