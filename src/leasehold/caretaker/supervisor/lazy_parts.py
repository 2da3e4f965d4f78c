"""Parts of a caretaker that are made on first use.

A cell that ends within a second needs few of them, and importing them all would take longer than its whole life.
"""

from __future__ import annotations

from typing import Any

from leasehold.kit.startup.typing_stub import unhinted


def late(module: str, name: str) -> Any:
    """Declare a part: `name` of `module`, made with the caretaker's folder, plan and journal."""
    return _Late(module, name)


def is_made(caretaker: Any, part: str) -> bool:
    """Return whether the part has been used."""
    return part in vars(caretaker)


class _Late:
    """Replaced on first use: an instance's own attribute takes precedence over it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, caretaker: Any, owner: type) -> Any:
        with unhinted():
            kind = getattr(__import__(self._module, fromlist=[self._name]), self._name)
        made = kind(caretaker.folder, caretaker.plan, caretaker.note)
        vars(caretaker)[self._attribute] = made
        caretaker.join(self._attribute, made)
        return made
