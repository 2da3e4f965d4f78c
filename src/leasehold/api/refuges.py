"""Verbs about refuges: the places off a box where checkpoints and results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.lifecycle.results.check_refuge import CheckedRefuge


def refuge_check(where: str, environ: Mapping[str, str]) -> CheckedRefuge:
    """Prove on a scratch key that a bucket or folder can be a refuge."""
    from leasehold.lifecycle.results.check_refuge import check_refuge

    return check_refuge(where, environ)
