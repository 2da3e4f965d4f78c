"""A short command loads little, its help is as wide as the terminal, and its tables are straight."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.shells.cli.help_text import HelpText
from leasehold.shells.cli.output import table

_STATUS = """
import sys
from leasehold.__main__ import main
sys.argv[1:] = ["status"]
code = main()
print(code, *[name for name in ("inspect", "shutil", "lzma", "yaml") if name in sys.modules])
"""


def test_status_loads_neither_inspect_nor_decompressors(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": ":".join(sys.path), "LEASEHOLD_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", _STATUS], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize("columns", ["50", "0", "-3", "wide", "", "200"])
def test_help_is_as_wide_as_argparse_makes_it(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    texts = []
    for formatter in (HelpText, argparse.RawDescriptionHelpFormatter):
        parser = argparse.ArgumentParser(prog="lease", formatter_class=formatter)
        parser.add_argument("--long-option", help="many words " * 30)
        texts.append(parser.format_help())
    assert texts[0] == texts[1]


def test_help_without_a_standard_output_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    assert HelpText("lease")._width == 78


def test_columns_are_straight_whatever_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    table([["plain", "x"], ["显存", "y"], ["a\x1b[31mb\nc", "z"], ["", ""]], ["name", "end"])
    lines = capsys.readouterr().out.split("\n")
    assert lines == ["name   end", "plain  x", "显存   y", "ab\\nc  z", "", ""]
