"""Kill a smoke midway, start it again in the same folders, and check that it continued."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

from leasehold.gates.start.launching import Continuation
from leasehold.kit.text.progress import ProgressReader
from leasehold.kit.text.progress_counters import Counter
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.model.job.job import Job
from leasehold.model.run.note import Note, Report

from .smoke_trial import Folders, Ready, Trial, lay_out, run_once

_EPOCH = "epoch"  # the key when only epochs are counted
_BAR = "bar "  # a progress bar shows 0 before the first step, whatever follows
_FEW_SIGHTS = 3  # with fewer steps, time determines the middle
_OURS = re.compile(r"^checkpoint: none in ", re.MULTILINE)  # printed by our Checkpointer at a fresh start
_RESTORED = re.compile(r"^checkpoint: resumes at step (\d{1,18}) from (.+?)(?: \([^()\n]*\))?$", re.MULTILINE)


def check_continuing(job: Job, tree: CodeTree, place: Path, whole: Trial, report: Report) -> Continuation:
    """Kill a second smoke halfway and start it again; `whole` is the smoke that ran to its end."""
    folders = lay_out(tree, place)
    request = place / "save-request"
    request.write_bytes(b"")  # our Checkpointer saves at its first step: a smoke ends before its cadence begins
    report(Note("smoke_started", "smoke once more, to be killed halfway"))
    halfway = _halfway(whole, Path(f"{request}.done"))
    first = run_once(job, folders, {"LEASE_SAVE_REQUEST": str(request)}, halfway, report=report)
    if not first.killed:
        return Continuation(killed=False)
    seen_files = folders.written(tree)
    report(Note("smoke_started", "smoke again in the same folders, to see where it continues"))
    second = run_once(job, folders, {"LEASE_ATTEMPT": "2"}, report=report)
    seen = _compare(whole.reader.main or first.reader.main, first.reader, second.reader)
    return replace(seen, killed=True, code=second.code, restored_step=_restored(second, folders), wrote=seen_files)


def _halfway(whole: Trial, saved: Path) -> Ready:
    """Choose the moment: our Checkpointer's first save, else half of the steps, else half of the time after the first.

    Time counts from the first step on, because imports may take longer than the steps of a smoke.
    """
    sights = whole.reader.counters[whole.reader.main].sights if whole.reader.main else 0
    half_s = (whole.ended - (whole.first_sight or whole.begun)) / 2

    def ready(trial: Trial) -> bool:
        if _OURS.search(trial.output):
            return saved.exists()
        if sights >= _FEW_SIGHTS:
            now = trial.reader.counters.get(whole.reader.main)
            return now is not None and now.sights >= max(2, (sights + 1) // 2)
        since = trial.begun if whole.first_sight is None else trial.first_sight
        return since is not None and time.monotonic() - since >= half_s

    return ready


def _compare(key: str, first: ProgressReader, second: ProgressReader) -> Continuation:
    """Compare where both runs began: the training's own counter, or the epoch where only that advanced."""
    before, after = first.counters.get(key), second.counters.get(key)
    reached = _place(key, before.last, None) if before else ""
    if first.first_epoch is not None and second.first_epoch is not None and second.first_epoch > first.first_epoch:
        epochs = f"epoch {first.first_epoch:g}", f"epoch {second.first_epoch:g}"
        return Continuation(True, reached=reached, first_before=epochs[0], first_after=epochs[1], further=True)
    return Continuation(
        killed=True,
        reached=reached,
        first_before=_place(key, before.first, before.first_epoch) if before else "",
        first_after=_place(key, after.first, after.first_epoch) if after else "",
        further=bool(before and after and _begin(after) > _begin(before)),
        from_zero=bool(after and after.first == 0 and key.startswith(_BAR)),
    )


def _begin(counter: Counter) -> tuple[float, int]:
    return (-1.0 if counter.first_epoch is None else counter.first_epoch, counter.first)


def _place(key: str, step: int, epoch: float | None) -> str:
    if key == _EPOCH:
        return f"epoch {step}"
    return f"step {step}" + (f" of epoch {epoch:g}" if epoch is not None else "")


def _restored(trial: Trial, folders: Folders) -> int:
    """Return the step that our Checkpointer restored from this smoke's folders; elsewhere it may be another run's."""
    place = os.path.realpath(folders.place) + os.sep
    for found in _RESTORED.finditer(trial.output):
        if os.path.realpath(found[2]).startswith(place):
            return int(found[1])
    return 0
