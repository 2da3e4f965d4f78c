"""Verbs of sweeps: list their cells, the state of each, and what they measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.lifecycle.home.home import Home

from .front import bringing

if TYPE_CHECKING:
    from leasehold.lifecycle.records.orders import RunOrder
    from leasehold.model.job.cells import Scalar
    from leasehold.model.job.job import Job
    from leasehold.model.run.note import Report
    from leasehold.model.run.sweep import Best, BoxPace, CellRow, Group, Standing, Straggler, SweepPlot


def sweep_plan(home: Home, path: Path) -> tuple[Job, dict[str, list[Scalar | None]], str]:
    """Return a job file's cells, the parameters that differ, and a warning for each that nothing reads."""
    from leasehold.lifecycle.preflight.unread_parameters import unread
    from leasehold.lifecycle.project.code_tree import RESULTS, read_tree
    from leasehold.lifecycle.project.excluded import own_places
    from leasehold.lifecycle.project.job_yaml import read_job
    from leasehold.lifecycle.project.local_data import apart
    from leasehold.model.job.cells import differing

    job = read_job(path)
    project = path.absolute().parent
    if not job.cells:
        return job, {}, ""
    tree = read_tree(project, path.name, own_places(home, project, project / RESULTS), apart=apart(job, project))
    return job, differing(job.cells), unread(job, tree)


def run_fleet(home: Home, order: RunOrder, report: Report) -> Standing:
    """Run a job's cells over several boxes and bring every one home; the identical call continues where it stands."""
    from leasehold.lifecycle.box.platform_choice import settle
    from leasehold.lifecycle.sweep.fleet.fleet import run_fleet as run_over

    names = [name.strip() for name in order.on.split(",") if name.strip()]
    for name in names:
        settle(home, name, order.platform if name.startswith("ssh:") else "", report)
    return run_over(home, bringing(order), names, report)


def sweep_standing(home: Home, word: str, *, ask: bool = True) -> Standing:
    """Account for every cell of a sweep."""
    from leasehold.lifecycle.sweep.report.sweep_status import standing

    return standing(home, word, ask=ask)


def sweep_pace(found: Standing) -> tuple[dict[str, Straggler], list[BoxPace]]:
    """Return the cells that take longer than comparable ones, and the progress of each box."""
    from leasehold.lifecycle.sweep.report.eta import paces, stragglers

    return stragglers(found), paces(found)


def sweep_table(home: Home, found: Standing, metrics: list[str]) -> tuple[list[CellRow], list[Group], list[Best]]:
    """Tabulate what the cells at home measured: a row per cell, settings with seeds joined, the best by each metric."""
    from leasehold.lifecycle.sweep.report.sweep_status import rows
    from leasehold.lifecycle.sweep.report.table import best, group

    listed = rows(home, found)
    groups = group(listed)
    return listed, groups, best(groups, metrics)


def sweep_plot(home: Home, found: Standing, metric: str, by: str) -> SweepPlot:
    """Return a metric against one parameter, and the curve of each cell that is home."""
    from leasehold.lifecycle.sweep.report.learning_curves import series_of
    from leasehold.lifecycle.sweep.report.plotting import plot_of
    from leasehold.lifecycle.sweep.report.printed_metrics import course_of
    from leasehold.lifecycle.sweep.report.sweep_status import logs_at, numbers_at

    listed, groups, _ = sweep_table(home, found, [])
    at, logs = numbers_at(home, found), logs_at(home, found)

    def course(cell: str, name: str) -> list[tuple[float, float]]:
        if cell not in at:
            return []
        return series_of(*at[cell], name) or course_of(*logs.get(cell, (None, "none")), name)

    return plot_of(listed, groups, metric, by, course)


def sweep_spelled(rows: list[CellRow], how: str) -> bytes:
    """Format a table as csv, markdown or Parquet."""
    from leasehold.lifecycle.sweep.report.table import columns, spelled

    return spelled(columns(rows), how)
