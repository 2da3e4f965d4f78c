"""List what is on the box and not home: files that no artifact names, and promised ones without a receipt."""

from __future__ import annotations

from typing import Any

from leasehold.gates.end.teardown import RunReadings
from leasehold.kit.text.safe_text import one_line

GIVEN_UP, UNPROMISED, NOT_HOME = "given up", "no artifact names it", "promised, and not home"


def left_behind(
    run: RunReadings, present: dict[str, list[dict[str, Any]]], rest: dict[str, Any]
) -> list[dict[str, Any]]:
    """List run, cell, path, bytes and reason of each file that is not home; what the box only counted has `files`."""
    home = set(run.receipt.cells) if run.receipt else set()
    left = [
        {"cell": cell, **_brief(entry), "why": GIVEN_UP}
        for cell in run.waived
        for entry in rest["remains"].get(cell, ())
    ]
    for cell, entries in present.items():
        sealed = {entry["path"] for entry in run.sealed.get(cell, ())} if cell in home else set()
        if cell not in rest["remains"]:
            left += [{"cell": cell, **_brief(one), "why": NOT_HOME} for one in entries if one["path"] not in sealed]
    left += [{**entry, "why": UNPROMISED} for entry in rest["other"] if entry["cell"] not in rest["remains"]]
    left += _counted(rest.get("other_more"))
    astray = rest.get("astray") or {}
    left += [{**_brief(entry), "cell": str(entry["cell"]), "why": UNPROMISED} for entry in astray.get("files", ())]
    left += _counted(astray.get("more"))
    if astray.get("problem"):
        path = f"(what it wrote beside its code cannot be listed: {one_line(str(astray['problem']))})"
        left.append({"cell": "*", "path": path, "bytes": 0, "why": UNPROMISED})
    return [{"run": run.run, **entry} for entry in left]


def _counted(more: dict[str, Any] | None) -> list[dict[str, Any]]:
    if not more or not more.get("files"):
        return []
    name = f"({int(more['files']):,} more files, which the box counted and did not list)"
    return [{"cell": "*", "path": name, "bytes": int(more["bytes"]), "files": int(more["files"]), "why": UNPROMISED}]


def _brief(entry: dict[str, Any]) -> dict[str, Any]:
    return {"path": str(entry["path"]), "bytes": int(entry["bytes"])}
