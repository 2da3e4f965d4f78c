"""Download what the job names: a parent that stays small and keeps watch, and a worker that uses the network.

The worker is dressed like any command of the job (variables, hook, secrets). It inherits the run's download lock, so
that a second worker cannot start while one lives. Both write into a journal of their own, one at a time;
the caretaker, which alone writes the run's journal, copies it from there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import Any, Dict, List, Mapping

from leasehold.caretaker.attempt.keeper import respawn_caretaker
from leasehold.caretaker.attempt.platform_shell import hook_failed, outfit_of
from leasehold.caretaker.process.locks import is_held, try_lock, wait_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.journal import Journal, read_from
from leasehold.kit.run.processes import MARK
from leasehold.kit.run.run_state import fold

from .download_watch import MARK_NAME

_LOOK_S = 0.5
_LOCK_WAIT_S = 2.0
_VERDICTS = ("downloads_ready", "download_failed", "hook_failed")


def fetch(folder: RunFolder) -> int:
    """Start the worker and wait until it has ended; respawn a dead caretaker meanwhile."""
    lock = wait_lock(folder.downloads_lock, _LOCK_WAIT_S)
    plan = folder.read_plan()
    if lock is None or plan is None:
        return 0
    due = folder.downloads_log + ".hook-due"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(due)
    ours = {"LEASE_RUN": folder.run, "LEASE_DATA": folder.data, MARK: folder.mark(MARK_NAME)}
    dressed = outfit_of(folder, plan, ours).dress(own_argv("pull", folder.path), own_argv("settle"), due)
    limits = os.environ.get("LEASEHOLD_FETCH")
    environ = dict(dressed.environ, **({"LEASEHOLD_FETCH": limits} if limits else {}))
    with open(folder.downloads_log, "ab") as log:
        worker = subprocess.Popen(
            dressed.argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock],
            cwd=folder.path,
        )  # fmt: skip
    code = _wait(folder, worker)
    journal = Journal(folder.downloads)
    if not journal.events or journal.events[-1]["k"] not in _VERDICTS or journal.events[-1].get("worker") != worker.pid:
        found = hook_failed(due, code, folder.downloads_log)
        if found is not None:
            journal.append("hook_failed", worker=worker.pid, **found)
        else:
            journal.append("download_worker_lost", worker=worker.pid, code=code)
    journal.close()
    os.close(lock)
    _bring_back(folder)
    return 0


def _wait(folder: RunFolder, worker: "subprocess.Popen[bytes]") -> int:
    while True:
        try:
            return worker.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            _bring_back(folder)


def _bring_back(folder: RunFolder) -> None:
    """Respawn a dead caretaker, but not for a run that has ended."""
    if not is_held(folder.caretaker_lock) and not fold(read_from(folder.journal, 0)[0]).terminal:
        respawn_caretaker(folder)


def pull(folder: RunFolder) -> int:
    """Download every item in turn; the last event is the outcome."""
    from .download_file import Failed, limits_of
    from .download_store import NoRoom, Taken

    plan = folder.read_plan()
    if plan is None:
        return 1
    journal = Journal(folder.downloads)
    worker = _Worker(folder, journal, limits_of(os.environ.pop("LEASEHOLD_FETCH", "")))
    for number, item in enumerate(plan["job"].get("downloads") or []):
        try:
            worker.bring(number, item)
        except (Failed, NoRoom, Taken, OSError) as error:
            worker.fail(number, item, error)
            return 1
    journal.append("downloads_ready", worker=os.getpid())
    return 0


class _Worker:
    """Downloads items and reports progress."""

    def __init__(self, folder: RunFolder, journal: Journal, limits: Dict[str, float]) -> None:
        from .download_store import Store

        self.journal = journal
        self.limits = limits
        self.store = Store(folder.data)
        self.store.open()
        self.facts: Dict[str, Any] = {}
        self.have = self.total = self.since = self.sizes_known = 0
        self.reported_at = 0.0

    def bring(self, number: int, item: Mapping[str, Any]) -> None:
        """Download one item unless it is here."""
        from leasehold.kit.tables.download_sources import parse_source

        from .sources import list_item, spelled

        self.facts = {"item": number, "to": item["to"], "from": list(spelled(item))}
        lock = self._sole(item)
        try:
            found = self.store.finished(item)
            if found is None:
                self.store.refuse_other(item)
                sources = [parse_source(source) for source in item["source"]]
                listing = list_item(sources, item, os.environ, self.limits)
                self._bring_files(item, listing.files, listing.commit)
            else:
                self._tell("download_found", files=len(found["files"]), commit=found.get("commit", ""))
        finally:
            os.close(lock)

    def fail(self, number: int, item: Mapping[str, Any], error: BaseException) -> None:
        """Journal why an item cannot be downloaded."""
        kinds = {"NoRoom": "disk", "Taken": "taken"}
        self._tell(
            "download_failed", worker=os.getpid(), why=kinds.get(type(error).__name__, "failed"),
            tries=getattr(error, "tries", 0), error=str(error)[:500],
        )  # fmt: skip

    def _sole(self, item: Mapping[str, Any]) -> int:
        """Wait while another run downloads to the same path."""
        path = self.store.lock(item["to"])
        lock = try_lock(path)
        if lock is None:
            self._tell("download_waiting")
        while lock is None:
            time.sleep(min(1.0, self.limits["pause_s"]))
            lock = try_lock(path)
        return lock

    def _bring_files(self, item: Mapping[str, Any], files: List[Any], commit: str) -> None:
        from .download_file import Ears, FileFetch

        parts = [_size(self.store.part(file.path)) for file in files]
        self.have, self.total = sum(parts), sum(file.size for file in files)
        self.store.need_room(max(0, self.total - self.have), len(files))
        self._tell("download_started", files=len(files), have=self.have, total=self.total, commit=commit)
        self.since, self.reported_at, begun, start = self.have, time.monotonic(), time.monotonic(), self.have
        largest = max(files, key=lambda file: file.size)
        brought = []
        ears = Ears(self._tell, self._moved, self._sized)
        for file in files:
            self.sizes_known = self.total
            self.facts["file"] = file.path
            seen = FileFetch(self.store, file, self.limits, ears).run(file is largest)
            brought.append({"path": file.path, "sha256": seen.sha256, "size": seen.size})
        self.facts.pop("file", None)
        self.store.keep(item, brought, commit)
        spent = max(0.001, time.monotonic() - begun)
        size = sum(file["size"] for file in brought)
        rate = int((self.have - start) / spent)
        self._tell("download_done", files=len(files), bytes=size, bytes_per_s=rate, commit=commit)

    def _sized(self, total: int) -> None:
        self.total = self.sizes_known + total

    def _moved(self, count: int) -> None:
        self.have += count
        spent = time.monotonic() - self.reported_at
        if spent < self.limits["report_s"]:
            return
        rate = int((self.have - self.since) / spent)
        self.since, self.reported_at = self.have, time.monotonic()
        self._tell("download_progress", have=self.have, total=max(self.total, self.have), bytes_per_s=rate)

    def _tell(self, kind: str, **facts: Any) -> None:
        self.journal.append(kind, **{**self.facts, **facts})


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
