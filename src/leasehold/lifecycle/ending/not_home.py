"""What is not home when a box's verb is carried out, from what was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.gates.end.teardown import RunReadings, TeardownReadings


def not_home(readings: TeardownReadings, left: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """List promised cells that are not home, then the files that no artifact names; each with its files on the box."""
    lost = [
        {
            "run": run.run,
            "cell": cell,
            "given_up": cell in run.waived,
            **_sum([entry for entry in left if (entry["run"], entry["cell"]) == (run.run, cell)]),
        }
        for run in readings.runs
        for cell in _owed(run)
    ]
    named = {(one["run"], one["cell"]) for one in lost}
    rest = [entry for entry in left if (entry["run"], entry["cell"]) not in named]
    return [*lost, {"run": "", "cell": "", "given_up": False, **_sum(rest)}] if rest else lost


def all_promised_home(readings: TeardownReadings) -> bool:
    """Return whether a receipt covers every promised cell."""
    return not any(_owed(run) for run in readings.runs)


def _owed(run: RunReadings) -> list[str]:
    home = set(run.receipt.cells) if run.receipt else set()
    return [cell for cell in run.promised if cell not in home]


def _sum(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "files": sum(int(entry.get("files", 1)) for entry in files),
        "bytes": sum(int(entry["bytes"]) for entry in files),
        "paths": [str(entry["path"]) for entry in files],
    }
