"""Find the run that the identical command meant before something changed, so that nothing silently starts at zero."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import Refusal
from leasehold.ledger import books
from leasehold.lifecycle.results import kept_code
from leasehold.model.job.job import Job
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan, plan_from_dict

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger
    from leasehold.lifecycle.project.code_tree import CodeTree
    from leasehold.model.lease.lease import Lease, RunRecord
    from leasehold.platforms.contract import Engine

_ENDED = ("stopped", "failed")
_SHOWN = 6
_MOST_CELLS = 20  # cells that are searched for what an earlier run left


def as_begun(ledger: Ledger, plan: Plan, tree: CodeTree, report: Report) -> Plan:
    """Keep a run's original code if only files changed that do not affect its identity; report which."""
    known = books.run_called(ledger, plan.run)
    if known is None or known.state in ("planned", "absent"):
        return plan
    begun = plan_from_dict(json.loads(known.plan_json))
    if begun.tree == plan.tree:
        return plan
    changed = _changes(kept_code.entries_of(ledger, begun.tree), tree.entries)
    what = say_changes(changed) if changed else "some files"
    text = f"the same run: its training does not use {what}; it keeps the files that it began with"
    report(Note("beside", text, {"changed": [path for _, path in changed]}))
    return replace(plan, tree=begun.tree, code=begun.code)


def refuse_lost_thread(
    ledger: Ledger, engine: Engine, plan: Plan, lease: Lease, tree: CodeTree, report: Report
) -> None:
    """Refuse to start at zero beside a run of this job that was stopped and left something to resume from."""
    earlier = _earlier(ledger, plan, lease, tree)
    if earlier is None:
        return
    seen = engine.observe.look(earlier.run)
    if seen["state"] not in _ENDED:
        return
    begun = plan_from_dict(json.loads(earlier.plan_json))
    changed = _what_changed(ledger, (begun, plan.job), tree)
    left = _left_by(engine, earlier.run, seen)
    if not left:
        report(Note("changed", f"a new run, since {changed}; {earlier.run} {seen['state']} and left nothing behind"))
        return
    raise Refusal(
        "run.changed",
        f"{earlier.run} {seen['state']} and can go on; the code or job changed since, so this command would start "
        "another run, at zero",
        seen=f"{changed}; {earlier.run} left {left}",
        hint=f"lease resume {earlier.run} goes on with the code that it began with; lease run --again starts the code "
        "as it is now, from the beginning",
    )


def say_changes(changes: Sequence[tuple[str, str]]) -> str:
    """List the files that changed, were added or were removed."""
    shown = ", ".join(f"{path}{_HOW[how]}" for how, path in changes[:_SHOWN])
    more = len(changes) - _SHOWN
    return shown + (f" and {more} more" if more > 0 else "")


_HOW = {"changed": "", "new": " (new)", "gone": " (gone)"}


def _earlier(ledger: Ledger, plan: Plan, lease: Lease, tree: CodeTree) -> RunRecord | None:
    """Find the newest other run of this job and project on this lease, if its results are still owed."""
    for record in books.runs(ledger, lease=lease.id):
        other = record.name == plan.job.name and record.project == str(tree.project) and record.run != plan.run
        if other and record.state not in ("planned", "absent"):
            return record if record.owed() else None
    return None


def _what_changed(ledger: Ledger, jobs: tuple[Plan, Job], tree: CodeTree) -> str:
    """Describe what changed in the job and in the files that count."""
    begun, job = jobs
    before, now = begun.job.identity(), job.identity()
    keys = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    said = [f"the job changed ({', '.join(f'lease.yaml: {key}' for key in keys)})"] if keys else []
    if (begun.code or begun.tree) != tree.identity:
        old = kept_code.entries_of(ledger, begun.tree)
        changes = [(how, path) for how, path in _changes(old, tree.entries) if path not in tree.beside]
        if old is None:
            said.append("its code changed, and what it was is not known at this home")
        else:
            files = say_changes(changes) if changes else "what counts as code, by .leaseignore"
            said.append(f"files changed: {files}")
    return "; ".join(said)


def _changes(old: Iterable[Mapping[str, Any]] | None, new: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Compare two lists of files; return (how, path) in path order."""
    before = {str(entry["path"]): entry for entry in old or ()}
    now = {str(entry["path"]): entry for entry in new}
    found = []
    for path in sorted({*before, *now} if old is not None else ()):
        if path not in before:
            found.append(("new", path))
        elif path not in now:
            found.append(("gone", path))
        elif dict(before[path]) != dict(now[path]):
            found.append(("changed", path))
    return found


def _left_by(engine: Engine, run: str, seen: Mapping[str, Any]) -> str:
    """Describe what an ended run left that another start could resume from; empty when there is nothing."""
    unfinished = [name for name, cell in seen["cells"].items() if cell["state"] != "finished"]
    begun = [name for name in unfinished if seen["cells"][name].get("attempt")]
    files = sum(len(engine.proof.salvageable(run, name)) for name in begun[:_MOST_CELLS])
    if not files:
        return ""
    trained = (seen.get("work") or {}).get("trained_s")
    took = f" after {trained:.0f} s of training" if isinstance(trained, (int, float)) else ""
    return f"{files} file{'s' * (files != 1)} in its $LEASE_OUT{took}"
