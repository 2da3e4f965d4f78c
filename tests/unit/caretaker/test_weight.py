"""What lives as long as a run must not carry what only a moment needs: megabytes are counted on the box."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.support.front import SOURCES

_HEAVY = (
    "ast",
    "dataclasses",
    "hashlib",
    "http",
    "inspect",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "urllib",
)
_LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from leasehold.caretaker.monitor import alarms, patrol, ring_files, sampler, training_numbers
from leasehold.caretaker.supervisor import caretaker
print(" ".join(name for name in sys.argv[2:] if name in sys.modules))
"""


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="PyPy has loaded half of these by itself")
def test_the_caretaker_with_its_patrol_imports_nothing_heavy() -> None:
    asked = [sys.executable, "-I", "-S", "-c", _LOAD, str(SOURCES), *_HEAVY]
    said = subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout
    assert said.decode().split() == []
