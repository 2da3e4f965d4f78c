"""`dataclasses` loaded without `inspect` is the same, and whoever asks for `inspect` gets the real one."""

from __future__ import annotations

import subprocess
import sys

from tests.support.front import SOURCES

_START = (
    "import sys; sys.path.insert(0, sys.argv[1])\nfrom leasehold.kit.startup.inspect_stub import load_dataclasses\n"
)
_NO_DOCSTRING = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Pair:
    left: int
    right: str = "r"
print(Pair(1), Pair(1) == Pair(1), dataclasses.replace(Pair(1), left=2), Pair.__doc__)
"""


def _said(text: str) -> str:
    asked = [sys.executable, "-I", "-S", "-c", _START + text, str(SOURCES)]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.stdout.decode()


def test_classes_are_what_they_are_with_it() -> None:
    without = _said("load_dataclasses()" + _NO_DOCSTRING)
    assert without == _said(_NO_DOCSTRING)
    assert "left: int" in without, "the signature, which needs the real one"


def test_who_imports_it_later_gets_the_real_one() -> None:
    text = "load_dataclasses()\nprint('inspect' in sys.modules)\nimport inspect\nprint(inspect.isclass(int))\n"
    assert _said(text + "load_dataclasses(); print(sys.modules['inspect'] is inspect)").split()[1:] == ["True", "True"]


def test_one_that_is_loaded_is_used() -> None:
    text = "import inspect\nload_dataclasses()\nimport dataclasses\n"
    assert _said(text + "print(dataclasses.inspect is inspect is sys.modules['inspect'])") == "True\n"


def test_a_name_that_nobody_has_is_missing_as_ever() -> None:
    text = "load_dataclasses()\nimport dataclasses\nprint(hasattr(dataclasses.inspect, 'no_such_thing'))"
    assert _said(text) == "False\n"
