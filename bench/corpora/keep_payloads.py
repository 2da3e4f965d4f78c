"""A pytest plugin that keeps the pickles that the tests of a scanner make and never write to a file.

`-p keep_payloads` with this folder on PYTHONPATH; LEASEHOLD_CAPTURE names the folder they go to. Files that a test
writes are found below pytest's --basetemp.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20
# The class whose method takes a pickle (argument, or parsed) or makes one (result).
_PLACES = (
    ("modelaudit_picklescan.api", "PickleScanner", "scan_bytes", "argument"),
    ("fickling.fickle", "Pickled", "dumps", "result"),
    ("fickling.analysis", "Analyzer", "analyze", "parsed"),
)


def pytest_configure(config: object) -> None:
    """Stand between the tests and the scanners."""
    place = Path(os.environ["LEASEHOLD_CAPTURE"])
    for module, name, method, where in _PLACES:
        owner = getattr(importlib.import_module(module), name)
        setattr(owner, method, _keeping(getattr(owner, method), where, place))


def _keeping(real: Callable[..., Any], where: str, place: Path) -> Callable[..., Any]:
    def keeping(self: object, *given: Any, **named: Any) -> Any:
        if where == "argument" and given:
            _keep(place, given[0])
        if where == "parsed" and given:
            given[0].dumps()  # kept as its result
        result = real(self, *given, **named)
        if where == "result":
            _keep(place, result)
        return result

    return keeping


def _keep(place: Path, data: object) -> None:
    if isinstance(data, (bytes, bytearray, memoryview)) and 1 < len(data) <= _LONGEST:
        kept = bytes(data)
        (place / f"{hashlib.sha256(kept).hexdigest()[:16]}.pkl").write_bytes(kept)
