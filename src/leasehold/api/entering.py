"""Verbs that run a person's own command on a box: ssh, exec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.model.run.entered import Entered


def ssh(home: Home, word: str, words: Sequence[str], *, capture: bool = False) -> Entered:
    """Open a shell or run a command on a box, or in the folder of a run on its box."""
    from leasehold.lifecycle.care import enter

    return enter.ssh(home, word, words, capture=capture)


def execute(home: Home, word: str, cell: str, words: Sequence[str], *, capture: bool = False) -> Entered:
    """Run a command in a run's working folder and environment."""
    from leasehold.lifecycle.care import enter

    return enter.enter(home, word, cell, words, capture=capture)
