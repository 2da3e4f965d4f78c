"""Verify a sweep's home copies together: every promised cell is at home once, whichever box had it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from leasehold.errors import VerifyError
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.model.lease.lease import RunRecord


def verify_parts(parts: Sequence[RunRecord], verified: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the results of all parts; a promised cell that no copy holds, and nobody gave up, is an error."""
    sweep = sweep_of(parts[0].run)
    promised = list(dict.fromkeys(cell for part in parts for cell in json.loads(part.plan_json).get("cells", ())))
    waived = {cell for part in parts for cell in part.waived}
    home = {cell for one in verified for cell in one["receipt"]["cells"]}
    lacking = [cell for cell in promised if cell not in home and cell not in waived]
    if lacking:
        raise VerifyError(
            "receipt.none",
            f"{sweep}: {len(promised) - len(lacking)} of {len(promised)} cells are home; not: {', '.join(lacking[:9])}",
            hint=f"lease sweep reconcile {sweep} says where each one is",
        )
    return {
        "sweep": sweep,
        "cells": len(home & set(promised)),
        "promised": len(promised),
        "waived": sorted(waived & set(promised)),
        "files": sum(int(one["receipt"]["files"]) for one in verified),
        "bytes": sum(int(one["receipt"]["bytes"]) for one in verified),
        "parts": list(verified),
    }
