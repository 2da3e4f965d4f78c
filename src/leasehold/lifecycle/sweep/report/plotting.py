"""The data of a sweep's picture: a metric against one parameter, a line for each setting of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leasehold.errors import UserError
from leasehold.model.job.cells import SEED, Scalar, spell
from leasehold.model.run.sweep import CellRow, Group, SweepPlot

from .table import best

Course = Callable[[str, str], list[tuple[float, float]]]  # points of a cell's curve, by metric


def plot_of(rows: Sequence[CellRow], groups: Sequence[Group], metric: str, by: str, course: Course) -> SweepPlot:
    """Choose axis and metric where none are given, and join points with the same other settings."""
    known = list(dict.fromkeys(name for one in groups for name in one.metrics))
    if not known:
        raise UserError(
            "sweep.no_numbers",
            f"none of {len(rows)} cells has numbers at home yet",
            hint="they come from json, jsonl and csv artifacts, else from logs; lease sweep status shows what is home",
        )
    metric = _metric(groups, metric, known)
    axes = _axes(groups)
    if by and by not in axes:
        hint = f"--by {' or --by '.join(axes)}" if axes else "no parameter differs"
        raise UserError("sweep.no_axis", f"{by!r} does not differ between cells", hint=hint)
    axis = by or (axes[0] if axes else "")
    lines: dict[str, list[tuple[Scalar, float, float | None, int]]] = {}
    for one in groups:
        if metric in one.metrics and (not axis or axis in one.params):
            others = _others(one.params, axes, axis)
            spread = one.metrics[metric]
            x = one.params[axis] if axis else one.cells[0]
            lines.setdefault(others, []).append((x, spread.mean, spread.sd, spread.n))
    curves = {row.cell: (_others(row.params, axes, axis), course(row.cell, metric)) for row in rows}
    return SweepPlot(metric, axis or "cell", lines, {name: curve for name, curve in curves.items() if curve[1]})


def _others(params: Mapping[str, Scalar], axes: Sequence[str], axis: str) -> str:
    """Name a line by the parameters that differ beside the axis."""
    return ", ".join(f"{key}={spell(value)}" for key, value in params.items() if key in axes and key != axis)


def _metric(groups: Sequence[Group], metric: str, known: Sequence[str]) -> str:
    name = metric.rpartition(":")[0] if metric.endswith((":min", ":max")) else metric
    if name and name not in known:
        raise UserError(
            "sweep.no_metric", f"no cell measured {name!r}", hint=f"measured: {', '.join(sorted(known)[:20])}"
        )
    guessed = [top.metric for top in best(groups, [])]
    return name or (guessed[0] if guessed else known[0])


def _axes(groups: Sequence[Group]) -> list[str]:
    keys = dict.fromkeys(key for one in groups for key in one.params if key != SEED)
    return [key for key in keys if len({repr(one.params.get(key)) for one in groups}) > 1]
