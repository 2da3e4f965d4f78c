"""run.json: the facts that let a reader trace a number back later."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import leasehold
from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.journal import read_from
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import Receipt

from .evidence import FOLDER
from .git_origin import CODE, GIT


def run_facts(plan: Plan, seen: Mapping[str, Any], receipt: Receipt, place: Path) -> dict[str, Any]:
    """Gather what is known of a finished run, each fact from its own record."""
    cells = seen["cells"]
    attempts = _attempts(place)
    return {
        "schema": "leasehold.run/1",
        "run": plan.run,
        "command": plan.job.run,
        "job": plan.job.as_dict(),
        "job_sha256": digest(plan.job.as_dict()),
        "plan_sha256": plan.sha256,
        "code_tree_sha256": plan.tree,
        "code_tree_checked_on_box": True,
        "code": f"{FOLDER}/{CODE}" if (place / FOLDER / CODE).is_file() else None,
        "git": read_json(str(place / FOLDER / GIT)),
        "environment_names": sorted(plan.job.env),
        "platform": plan.platform,
        "detach": seen.get("detach", ""),
        "opened_unix": seen.get("opened_unix"),
        "wall_s": _wall_s(seen),
        "attempts": attempts,
        "interruptions": sum(1 for item in attempts if item.get("lost") or item.get("signal") is not None),
        "caretaker_restarts": seen.get("restarts", 0),
        "exit_codes": {name: cell["code"] for name, cell in cells.items()},
        "manifest_sha256": receipt.manifest_sha256,
        "receipt_sha256": receipt.digest,
        "status": "pull_verified",
        "nonfinite": list(receipt.nonfinite),
        "verified_by": {"leasehold": leasehold.__version__, "python": platform.python_version()},
    }


def _wall_s(seen: Mapping[str, Any]) -> float:
    moments = [seen.get("opened_unix"), *(cell.get("ended_unix") for cell in seen["cells"].values())]
    known = [moment for moment in moments if isinstance(moment, int | float) and moment > 0]
    return round(max(known) - min(known), 3) if known else 0.0


def _attempts(place: Path) -> list[dict[str, Any]]:
    """Read how each attempt ended from the journal that was pulled; the box may have torn or forged it."""
    events, _ = read_from(str(place / "evidence" / "journal.jsonl"), 0)
    kept = ("cell", "attempt", "code", "signal", "lost", "cpu_s", "max_rss_kib", "at")
    return [{key: event[key] for key in kept if key in event} for event in events if event.get("k") == "attempt_ended"]
