"""What the journal says of the copies off the box: the newest state in each place, failures, and a run given away."""

from __future__ import annotations

from typing import Any, Dict

_COPY = ("state", "step", "made_unix", "bytes", "tier")
_PLAN = ("places", "home", "every_s", "keep")
_FENCE = ("epoch", "ours", "box", "home", "place")


def opened(run: Any, event: Dict[str, Any]) -> None:
    """Note where checkpoints are to go."""
    run.refuge = {key: event.get(key) for key in _PLAN}


def copied(run: Any, event: Dict[str, Any]) -> None:
    """Note what a place has now; a failure there is over."""
    cell, place = run.cells.get(str(event.get("cell"))), str(event.get("place"))
    if cell is None:
        return
    facts = {key: event.get(key) for key in _COPY}
    cell.refuge = dict(cell.refuge, **{place: dict(facts, at_unix=event.get("said_unix", event.get("t", 0.0)))})
    cell.refuge_failed = {key: item for key, item in cell.refuge_failed.items() if key != place}


def failed(run: Any, event: Dict[str, Any]) -> None:
    """Note which place a copy did not reach."""
    cell, place = run.cells.get(str(event.get("cell"))), str(event.get("place"))
    if cell is None:
        return
    why = {"class": str(event.get("class", "")), "why": str(event.get("why", "")), "since_unix": event.get("t", 0.0)}
    cell.refuge_failed = dict(cell.refuge_failed, **{place: why})


def fenced(run: Any, event: Dict[str, Any]) -> None:
    """Note that another box has the run."""
    run.fenced = {key: event[key] for key in _FENCE if key in event}


def regained(run: Any, event: Dict[str, Any]) -> None:
    """Note that the run was given back to this box."""
    run.fenced = {}


def published(run: Any, event: Dict[str, Any]) -> None:
    """Keep where the results were published, or why they were not."""
    said = event.get("to"), event.get("why")
    facts = {key: event.get(key) for key in ("files", "bytes", "contents_sha256")}
    run.published = {"to": said[0], "problem": said[1]} if said[1] else dict(facts, to=said[0])


FOLDS = {
    "published": published,
    "publish_failed": published,
    "refuge_opened": opened,
    "refuge_copied": copied,
    "refuge_failed": failed,
    "refuge_fenced": fenced,
    "refuge_regained": regained,
}
