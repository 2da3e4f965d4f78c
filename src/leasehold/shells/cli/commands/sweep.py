"""The sweep command: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.api import opening, sweeps
from leasehold.errors import UserError
from leasehold.model.job.cells import spell
from leasehold.shells.cli import output

if TYPE_CHECKING:
    from leasehold.api.orders import RunOrder
    from leasehold.model.run.sweep import Account, Best, CellRow, Group, Standing

_EXIT_OWED = 3
_EXIT_FAILED = 6
_WENT_ON = "the same lease run continues with what is owed"
_COLOURS = {"home": "green", "waived": "dim", "running": "bold", "failed": "red", "missing": "red", "unknown": "yellow"}
_SHOWN = 40  # rows on a screen; --json and files contain all of them


def sweep(args: Namespace) -> int:
    """lease sweep"""
    if args.action == "plan":
        return _plan(args)
    if not args.word:
        raise UserError(
            "sweep.which", "which sweep?", hint=f"lease sweep {args.action} RUN; lease status lists the runs"
        )
    found = sweeps.sweep_standing(opening.open_home(), args.word, ask=not args.offline)
    if args.action == "table":
        return _table(args, found)
    if args.action == "plot":
        from leasehold.shells.cli.screens.sweep_bars import plot

        return plot(args, found)
    if args.json:
        _standing_json(found)
    elif args.action == "reconcile":
        _say_standing(found)
    else:
        _draw(found)
    return _EXIT_OWED if args.action == "reconcile" and not found.settled else 0


def fleet(order: RunOrder, json: bool) -> int:
    """lease run over several boxes"""
    found = sweeps.run_fleet(opening.open_home(), order, output.Screen(json).report)
    if json:
        _standing_json(found)
    else:
        _say_standing(found)
        output.say(f"lease sweep table {found.sweep} shows what they measured" if found.settled else _WENT_ON)
    return 0 if found.settled or order.detach else _EXIT_FAILED


def _plan(args: Namespace) -> int:
    job, differ, warning = sweeps.sweep_plan(opening.open_home(), Path(args.word or "lease.yaml"))
    if args.json:
        cells = [cell.as_dict() for cell in job.cells]
        output.as_json({"job": job.name, "cells": cells, "differ": differ, "warning": warning})
        return 0
    if warning:
        output.say(f"warning: {warning}")
    if not job.cells:
        output.data(f"{job.name} has no cells: it is one run")
        return 0
    output.data(f"{job.name}: {len(job.cells)} cells")
    for key, values in differ.items():
        shown = ", ".join("(none)" if value is None else spell(value) for value in values[:12])
        output.data(f"  {key} differs: {shown}{' …' if len(values) > 12 else ''}")
    pinned = {key: value for cell in job.cells for key, value in cell.params.items() if key not in differ}
    if pinned:
        output.data(f"  the same in all: {_params(pinned)}")
    for cell in job.cells[:_SHOWN]:
        output.data(f"  {cell.name}")
    _say_more(len(job.cells) - _SHOWN)
    return 0


def _standing_json(found: Standing) -> None:
    late, boxes = sweeps.sweep_pace(found)
    params = {cell.name: dict(cell.params) for cell in found.roster}
    accounts = [
        {**account.as_dict(), "params": params[account.cell], "late": account.cell in late}
        for account in found.accounts
    ]
    about = {"sweep": found.sweep, "settled": found.settled, "counts": found.counts()}
    output.as_json({**about, "boxes": [box.as_dict() for box in boxes], "cells": accounts})


def _draw(found: Standing) -> None:
    from leasehold.shells.cli.screens.sweep_screen import draw_standing
    from leasehold.shells.cli.terminal import look_of_stdout

    late, boxes = sweeps.sweep_pace(found)
    for line in draw_standing(found, late, boxes, look_of_stdout()):
        output.data(line)


def _say_standing(found: Standing) -> None:
    counts = ", ".join(f"{count} {word}" for word, count in found.counts().items())
    output.data(f"{found.sweep}: {len(found.accounts)} cells: {counts}")
    for part in found.parts:
        if part.problem:
            output.data(f"  {part.box}: {output.paint_data('unknown', 'yellow')}: {part.problem}")
    listed = [account for account in found.accounts if not account.settled]
    width = max((len(account.cell) for account in listed[:_SHOWN]), default=0)
    for account in listed[:_SHOWN]:
        _say_account(account, width)
    _say_more(len(listed) - _SHOWN)
    if found.settled:
        output.data("every promised cell is home or waived")


def _say_account(account: Account, width: int) -> None:
    word = output.paint_data(account.word.value.ljust(10), _COLOURS.get(account.word.value, ""))
    what = f"  {account.what}" if account.what else ""
    output.data(f"  {account.cell.ljust(width)}  {word} {account.box}{what}")
    if account.mend and account.word.value not in ("running", "waiting"):
        output.data(f"  {' ' * width}    -> {account.mend}")
    for remark in account.remarks:
        output.data(f"  {' ' * width}    ! {remark}")


def _table(args: Namespace, found: Standing) -> int:
    rows, groups, best = sweeps.sweep_table(opening.open_home(), found, args.metric)
    if args.json:
        output.as_json(_as_json(rows, groups, best))
        return 0
    if args.format == "text":
        _say_table(rows, groups, best)
        return 0
    data = sweeps.sweep_spelled(rows, args.format)
    if args.out:
        output.to_file(args.out, data)
        return 0
    if args.format == "parquet":
        raise UserError("sweep.binary", "Parquet is no text", hint="--out sweep.parquet")
    output.data(data.decode("utf-8"), end="")
    return 0


def _say_table(rows: Sequence[CellRow], groups: Sequence[Group], best: Sequence[Best]) -> None:
    if not groups:
        where = "json, jsonl and csv artifacts, else the logs"
        output.data(f"none of {len(rows)} cells has numbers at home yet: they come from {where}")
        return
    metrics = list(dict.fromkeys(name for one in groups for name in one.metrics))[:8]
    names = list(dict.fromkeys(key for one in groups for key in one.params))
    lines = [[*names, *metrics]]
    for one in groups[:_SHOWN]:
        params = [spell(one.params[key]) if key in one.params else "" for key in names] or [one.cells[0]]
        lines.append([*params, *(str(one.metrics[key]) if key in one.metrics else "" for key in metrics)])
    if not names:
        lines[0] = ["cell", *metrics]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    for line in lines:
        output.data("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())
    _say_more(len(groups) - _SHOWN)
    for top in best:
        way = "smallest" if top.direction == "min" else "largest"
        guess = " (guessed from its name: --metric NAME:min|max says it)" if top.guessed else ""
        where = _params(top.params) or "the only setting"
        output.data(f"best by {top.metric}, {way} of {top.of}: {top.value} at {where}{guess}")
    printed = sum(1 for row in rows if row.from_log)
    if printed:
        how = "the last ones that their logs print; their artifacts hold no numbers"
        output.data(f"the numbers of {printed} of {len(rows)} cells are {how}")
    owed = sum(1 for row in rows if not row.metrics)
    if owed:
        output.data(f"{owed} of {len(rows)} cells have no numbers at home: lease sweep reconcile says why")


def _as_json(rows: Sequence[CellRow], groups: Sequence[Group], best: Sequence[Best]) -> dict[str, Any]:
    return {
        "cells": [
            {
                "cell": row.cell,
                "state": row.state,
                "params": dict(row.params),
                "metrics": dict(row.metrics),
                "from_log": row.from_log,
            }
            for row in rows
        ],
        "settings": [
            {
                "params": dict(one.params),
                "cells": list(one.cells),
                "metrics": {name: value.as_dict() for name, value in one.metrics.items()},
            }
            for one in groups
        ],
        "best": [
            {
                "metric": top.metric,
                "direction": top.direction,
                "guessed": top.guessed,
                "params": dict(top.params),
                **top.value.as_dict(),
            }
            for top in best
        ],
    }


def _params(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={spell(value)}" for key, value in params.items())


def _say_more(count: int) -> None:
    if count > 0:
        output.data(f"  … and {count} more: --json has them all")
