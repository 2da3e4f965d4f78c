"""Stands in for `inspect` while `dataclasses` is loaded, which uses it only for classes that have no docstring.

With its own imports it takes a tenth of the time of a short command. A later `import inspect` loads the real one.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load_dataclasses() -> None:
    """Load `dataclasses` without `inspect`, unless one of them is loaded already."""
    if "inspect" not in sys.modules:
        sys.modules["inspect"] = sys.modules[__name__]
    try:
        import dataclasses  # noqa: F401 - that is the point
    finally:
        _step_aside()


def _step_aside() -> None:
    if sys.modules.get("inspect") is sys.modules[__name__]:
        del sys.modules["inspect"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    _step_aside()
    import inspect

    return getattr(inspect, name)
