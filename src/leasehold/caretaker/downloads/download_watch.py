"""The caretaker's side of downloads: start the download process, copy its journal, know when a trainer may begin."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

from leasehold.caretaker.process.child_worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import journal

from .download_store import Store

_MOST_WORKERS = 5  # workers in a row that died without an event
MARK_NAME = "@downloads"


class Downloads:
    """Tracks which of the job's downloads are still missing."""

    def __init__(self, folder: RunFolder, plan: Mapping[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.items: List[Dict[str, Any]] = plan["job"].get("downloads") or []
        self.note = note
        self.ready = not self.items
        self.problem = ""  # why the run cannot go on
        self._worker = Worker(folder.downloads_lock)
        self._lost = 0
        self._copied: Optional[int] = None

    def step(self, known: List[Dict[str, Any]], before_exec: Callable[[], None]) -> bool:
        """Take the next step; return whether all are here. `known` is the run's journal."""
        if self.ready:
            return True
        self._copy(known)
        return self.ready if self.problem or self.busy() else self._next(known, before_exec)

    def _next(self, known: List[Dict[str, Any]], before_exec: Callable[[], None]) -> bool:
        """Start a worker if none runs and something is missing."""
        if self.ready:
            return True
        if all(Store(self.folder.data).finished(item) for item in self.items):
            if not any("d" in event for event in known):
                self.note("downloads_found", items=len(self.items))
            self.ready = True
        elif self._lost >= _MOST_WORKERS:
            self.problem = "download.failed: the download process died %d times without an error message" % self._lost
        else:
            self._worker.start(before_exec, "fetch", self.folder.path)
        return self.ready

    def busy(self) -> bool:
        """Return whether a worker downloads for this run now, even if its parent is gone."""
        return self._worker.busy()

    def end(self) -> None:
        """End the worker because the run is to stop. Partial downloads are kept."""
        if self.items and self.busy():
            from leasehold.caretaker.process.end_processes import end_processes

            end_processes(0, "", self.folder.mark(MARK_NAME), 2.0)

    def _copy(self, known: List[Dict[str, Any]]) -> None:
        if self._copied is None:
            self._copied = max((event["d"] for event in known if isinstance(event.get("d"), int)), default=0)
        for event in journal.read_from(self.folder.downloads, 0)[0]:
            if event["n"] > self._copied:
                self._copied = event["n"]
                facts = {key: value for key, value in event.items() if key not in ("n", "t", "k", "worker")}
                self.note(event["k"], d=event["n"], at=event["t"], **facts)
                self._judge(event)

    def _judge(self, event: Dict[str, Any]) -> None:
        kind = event["k"]
        if kind == "downloads_ready":
            self.ready = True
        elif kind == "download_failed":
            self.problem = say_failed(event)
        elif kind == "hook_failed":
            from leasehold.caretaker.attempt.platform_shell import say_hook

            self.problem = say_hook(event)
        elif kind == "download_worker_lost":
            self._lost += 1


def say_failed(event: Mapping[str, Any]) -> str:
    """Format a failed download as a reason, whose first word programs read."""
    from leasehold.kit.events.setup_events import download_failed

    return "download.failed: %s" % download_failed(event)
