"""Modules that are loaded without `typing` behave as with it, and nobody else goes without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.front import SOURCES

_MODULE = '''
from __future__ import annotations
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, NamedTuple, Optional, Tuple, TypeVar

if TYPE_CHECKING:
    import no_such_module

T = TypeVar("T")
Pairs = Dict[str, List[Tuple[int, Optional[Any]]]]
Act = Callable[[int], str]


class Box(Generic[T]):
    pass


class Order(NamedTuple):
    """What is wanted."""

    cells: List[str]
    wishes: Dict[str, Any] = {}
    after: str = ""

    @property
    def count(self) -> int:
        return len(self.cells)

    def say(self) -> str:
        return "%d%s" % (self.count, self.after)
'''
_SHOW = """
one = made.Order(["a", "b"], after="!")
print(one, one.count, one.say(), one == (["a", "b"], {}, "!"), one._replace(after="?").after, made.Order._fields)
print([getattr(made.Order, k) for k in ("__doc__", "__name__", "__module__", "__qualname__", "_field_defaults")])
"""


def _said(folder: Path, text: str) -> str:
    (folder / "made.py").write_text(_MODULE)
    start = "import sys; sys.path[:0] = sys.argv[1:]\nfrom leasehold.kit.startup.typing_stub import unhinted\n"
    asked = [sys.executable, "-I", "-S", "-c", start + text, str(SOURCES), str(folder)]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.stdout.decode()


def test_a_named_tuple_is_what_typing_makes_of_it(tmp_path: Path) -> None:
    without = _said(tmp_path, "with unhinted():\n    import made\n" + _SHOW)
    assert without == _said(tmp_path, "import typing, made\n" + _SHOW)
    assert "What is wanted." in without


def test_who_imports_typing_afterwards_gets_the_real_one(tmp_path: Path) -> None:
    text = "with unhinted():\n    import made\nfrom typing import get_type_hints\nprint(get_type_hints.__module__)"
    assert _said(tmp_path, text) == "typing\n"


def test_typing_that_is_loaded_already_is_used(tmp_path: Path) -> None:
    text = "import typing\nwith unhinted():\n    import made\n"
    text += "print(made.Any is typing.Any, sys.modules['typing'] is typing)"
    assert _said(tmp_path, text) == "True True\n"


def test_what_does_something_does_it(tmp_path: Path) -> None:
    acts = "from typing import Protocol, cast, get_type_hints, overload, runtime_checkable\nkept = cast(int, 7)\n"
    acts += "@runtime_checkable\nclass Shape(Protocol):\n    pass\n"
    (tmp_path / "acts.py").write_text(acts)
    text = "with unhinted():\n    import acts, made\nimport typing\n"
    text += "print(acts.kept, acts.Shape.__name__, acts.get_type_hints is typing.get_type_hints)"
    assert _said(tmp_path, text) == "7 Shape True\n"


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "try:\n    with unhinted():\n        import no_such_module\nexcept ImportError:\n    pass\n"
    text += "import typing\nprint(typing.cast)"
    assert _said(tmp_path, text).startswith("<function cast")
