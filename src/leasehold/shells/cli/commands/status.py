"""`lease status`: the selected runs in the requested order, and their leases."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from leasehold.api import opening, running
from leasehold.model.values.units import ago
from leasehold.shells.cli import output

Row = dict[str, Any]

_HEAD = ["RUN", "STATE", "BOX", "AGE", "SEEN", "STEP", "LOSS", "ETA", "RESULTS", "COST"]
_ROOM = [
    "",
    "stopping",
    "",
    "",
    "59 min ago",
    "10000/10000",
    "0.0123",
    "59 min",
    "given up",
    "",
]  # what a refresh may find
_COLOURS = {"STATE": {"running": "green", "failed": "red", "unknown": "yellow", "stopped": "yellow"}}
_LIVE = ("planned", "opened", "running", "stopping", "unknown")
_LAST = float("inf")  # rows without this figure come last
_ORDERS: dict[str, Callable[[Row], Any]] = {
    "newest": lambda row: row["age_s"],
    "eta": lambda row: row["progress"].get("eta_s", _LAST),
    "loss": lambda row: _LAST if (loss := row["progress"].get("loss")) is None else loss,
    "name": lambda row: row["run"],
    "box": lambda row: row["box"],
    "state": lambda row: (row["state"] not in _LIVE, row["state"]),
}


def status(args: Namespace) -> int:
    """lease status"""
    home = opening.open_home()
    known = [] if args.refresh and args.json else _chosen(args, running.status(home, args.run))
    fleet: dict[str, Any] = {}
    rows = known
    if args.refresh:
        from leasehold.shells.cli.screens.refresh_table import refreshed

        columns = output.Columns(_HEAD, [*map(_drawn, known), _ROOM], _COLOURS)
        as_they_come = not args.sort
        told, turn = refreshed(
            home, args, lambda told: columns.show([_drawn(row) for row in _chosen(args, told)] if as_they_come else [])
        )
        rows, fleet = _chosen(args, told), {"boxes": turn.as_dict()}
        if not as_they_come and not args.json:
            columns.show([_drawn(row) for row in rows])
    elif not args.json:
        output.table([_drawn(row) for row in rows], _HEAD, _COLOURS)
    narrowed = args.run or args.live or args.owed or args.box or args.state
    wanted = {row["lease"] for row in rows} if narrowed else None
    meters = [meter for meter in running.meters(home) if wanted is None or meter.lease.id in wanted]
    if args.json:
        output.as_json({"runs": rows, "leases": [meter.as_dict() for meter in meters], **fleet})
        return 0
    if not rows:
        output.say("no run matches; all of them: lease status" if narrowed else "no runs yet. Start one: lease run")
    _say_the_rest(args, rows, meters)
    return 0


def _say_the_rest(args: Namespace, rows: Sequence[Row], meters: Sequence[Any]) -> None:
    """Print the reasons for odd states, and what the leases cost."""
    for row in rows:
        if row["state"] != "stopped" and row["reason"]:  # live or finished runs have one only when something is odd
            output.say(f"{row['run']}: {row['reason']}")
    for row in rows:
        if row["refuge"] and row["lease_open"]:
            from leasehold.model.lease.off_the_box import say_refuge

            output.lines([f"{row['run']}: {line}" for line in say_refuge(row["refuge"])])
    if meters:
        from leasehold.shells.cli.screens.meter_lines import lease_lines

        for meter in meters:
            output.lines(lease_lines(meter, time.time(), output.columns()))
    for row in rows if args.run else ():
        if not row["lease_open"] and row["lease_cost"]:
            output.lines([f"{row['lease']}  closed  {row['lease_cost']} in all"])


def _chosen(args: Namespace, rows: Sequence[Row]) -> list[Row]:
    """Filter and sort the rows as asked."""
    kept = [
        row
        for row in rows
        if (not args.live or (row["state"] in _LIVE and row["lease_open"]))
        and (not args.owed or _is_owed(row))
        and (not args.box or row["box"] == args.box)
        and (not args.state or row["state"] == args.state)
    ]
    return sorted(kept, key=_ORDERS[args.sort]) if args.sort else kept


def _is_owed(row: Row) -> bool:
    return not row["receipt"] and not row["waived"] and row["state"] not in ("planned", "absent")


def _drawn(row: Row) -> list[str]:
    home = "home NaN" if row["nonfinite"] else "home"
    results = home if row["receipt"] else "given up" if row["waived"] else "-"
    seen = "-" if row["seen_s_ago"] is None else f"{ago(row['seen_s_ago'])} ago"
    closed = "" if row["lease_open"] else " closed"
    cost = f"{row['cost']}{closed}" if row["cost"] else closed.strip() or "-"
    progress = row["progress"]
    eta = ago(progress["eta_s"]) if progress.get("eta_s") else "due" if "eta_s" in progress else "-"
    how_far = [_step(progress), _loss(progress), eta]
    return [row["run"], row["state"], row["box"], ago(row["age_s"]), seen, *how_far, results, cost]


def _step(progress: dict[str, Any]) -> str:
    if "cells" in progress:
        return f"{progress['cells_done']}/{progress['cells']} cells"
    epoch = f"epoch {progress['epoch']:g}" if "epoch" in progress else ""
    if "step" in progress:  # where the step count restarts with each epoch, steps alone would look like the total
        steps = f"{progress['step']}/{progress['total']}" if "total" in progress else str(progress["step"])
        return f"{steps}, {epoch}" if epoch else steps
    return epoch or "-"


def _loss(progress: dict[str, Any]) -> str:
    if "loss" not in progress:
        return "-"
    return "NaN" if progress["loss"] is None else f"{progress['loss']:.4g}"
