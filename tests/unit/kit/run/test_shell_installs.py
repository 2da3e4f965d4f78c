"""Which files a set-up installs from, and how it is pointed at others. Runs under PyPy too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from leasehold.kit.run.shell_installs import installer_of, point_elsewhere


def pointed(setup: str) -> str:
    return point_elsewhere(setup, "/w", lambda path, constraint: ("/C" if constraint else "/R") + path)


@pytest.mark.parametrize(
    "setup, becomes",
    [
        ("pip install -r requirements.txt", "pip install -r /R/w/requirements.txt"),
        ("pip3.11 install -q -rrequirements.txt", "pip3.11 install -q -r/R/w/requirements.txt"),
        ("python -m pip install --requirement=a.txt", "python -m pip install --requirement=/R/w/a.txt"),
        ("pip install -c c.txt --constraint=d.txt x", "pip install -c /C/w/c.txt --constraint=/C/w/d.txt x"),
        ("/opt/bin/pip install --requirement 'a b.txt'", "/opt/bin/pip install --requirement '/R/w/a b.txt'"),
        ("uv pip install --system -r a.txt", "uv pip install --system -r /R/w/a.txt"),
        ("apt-get update; pip install -r a.txt -r b.txt", "apt-get update; pip install -r /R/w/a.txt -r /R/w/b.txt"),
        ("cd sub && pip install -r a.txt", "cd sub && pip install -r /R/w/sub/a.txt"),
        ("(cd s; pip install -r a); pip install -r b", "(cd s; pip install -r /R/w/s/a); pip install -r /R/w/b"),
        ("set -e\npip install \\\n  -r a.txt\n# -r c.txt", "set -e\npip install \\\n  -r /R/w/a.txt\n# -r c.txt"),
        ("pip install -r /abs/a.txt", "pip install -r /R/abs/a.txt"),
        ("if [ -e a ]; then pip install -r a.txt; fi", "if [ -e a ]; then pip install -r /R/w/a.txt; fi"),
        ("pip install -r a.txt > log 2>&1 || true", "pip install -r /R/w/a.txt > log 2>&1 || true"),
    ],
)  # fmt: skip
def test_files_of_an_install_are_replaced(setup: str, becomes: str) -> None:
    assert pointed(setup) == becomes


@pytest.mark.parametrize(
    "setup",
    [
        'pip install -r "$LEASE_REQUIREMENTS"',
        "pip install -r $(ls *.txt)",
        "pip install -r ~/a.txt",
        "pip install torch==2.0",
        "pip install -e .",
        "pip download -r a.txt",
        "cp -r a b",
        "grep -r pip install.txt",
        "cd $WHERE && pip install -r a.txt",
        "echo 'pip install -r a.txt'",
        "conda install -c pytorch torch",
        "",
        "pip install -r 'unclosed",
    ],
)
def test_everything_else_is_left_as_it_stands(setup: str) -> None:
    assert pointed(setup) == setup


def test_the_shell_reads_a_replaced_name_as_one_word(tmp_path: Path, odd_name: str) -> None:
    place = str(tmp_path / odd_name)
    text = point_elsewhere("pip install -r a.txt", "/w", lambda path, constraint: place)
    asked = ["/bin/sh", "-c", 'pip() { printf %s "$3"; }\n' + text]
    assert subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout.decode() == place


@pytest.mark.parametrize(
    "setup, pip",
    [
        ("pip install x", "pip"), ("true && /a/bin/pip3 install x", "/a/bin/pip3"), ("uv pip install x", ""),
        ("python -m pip install x", ""), ("$V/pip install x", ""), ("echo pip install", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_pip_of_a_setup(setup: str, pip: str) -> None:
    assert installer_of(setup) == pip
