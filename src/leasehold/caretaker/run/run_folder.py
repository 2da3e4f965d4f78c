"""Paths in a run's folder on the box."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Optional

from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.paths import NAME, check_name


class _InRun:
    """A file in the run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "RunFolder", kind: object = None) -> str:
        return os.path.join(run.path, self._name)


class _AtAddress(_InRun):
    """A file that a cell with its own caretaker has for itself."""

    def __get__(self, run: "RunFolder", kind: object = None) -> str:
        return os.path.join(run.address, self._name)


class RunFolder:
    """The paths of one run below the box's root."""

    respawns = True  # a keeper restarts a caretaker that has died

    promises = _InRun("promises.json")  # what must exist at the end, as home last changed it; absent, see the plan
    reserve = _AtAddress("reserve")  # space reserved for the last records
    inputs = _InRun("inputs")  # LEASE_INPUTS: what `data:` of the job names, each under its own path
    durable = _InRun("durable.json")  # outcome of the last copy to the durable tier
    durable_progress = _InRun("durable-progress.json")  # progress of the copier
    durable_lock = _InRun("durable.lock")  # held by the one copier
    publish = _InRun("publish.json")  # outcome of the last publisher
    publish_progress = _InRun("publish-progress.json")
    publish_lock = _InRun("publish.lock")  # held by the one publisher
    notices = _AtAddress("notices.json")  # queued notices, their channels, and the last journal event processed
    notices_done = _AtAddress("notices-done.json")  # outcome of the last notice, as its sender wrote it
    notices_lock = _AtAddress("notices.lock")  # held while the queue is changed
    handbook = _AtAddress("HANDBOOK.md")  # what a newcomer needs to know of this run, for people
    handbook_facts = _InRun("handbook.json")  # what home knows for it and this box does not
    relaunch = _InRun("relaunch.json")  # the installed resume hook
    nagged = _InRun("nagged.json")  # how many reminders went out
    cleared = _InRun("cleared.json")  # processes that a person called harmless though they work in these folders
    pulled = _InRun("pulled.json")  # which ending of the run home has, verified
    hush = _InRun("hush")  # its presence ends the reminders
    refuge_epoch = _InRun("refuge-epoch.json")  # the epoch under which its checkpoints are published
    fence = _InRun("fence.json")  # the run goes on on another box, from this epoch on

    def __init__(self, path: str) -> None:
        self.path = path
        self.run = os.path.basename(path)
        self.plan = os.path.join(path, "plan.json")
        self.journal = os.path.join(path, "journal.jsonl")
        self.status = os.path.join(path, "status.json")
        self.stop = os.path.join(path, "stop.json")
        self.budget = os.path.join(path, "budget.json")
        self.holder = os.path.join(path, "holder.json")
        self.manifest = os.path.join(path, "manifest.json")
        self.environment = os.path.join(path, "environment.json")  # platform facts that home sent last
        self.downloads = os.path.join(path, "downloads.jsonl")
        self.downloads_log = os.path.join(path, "downloads.log")
        self.downloads_lock = os.path.join(path, "downloads.lock")
        self.gate = os.path.join(path, "gate.json")
        self.added = os.path.join(path, "added.json")  # cells that joined a sweep after its plan was written
        self.roster = os.path.join(path, "roster.json")  # a request: cells to add, cells to give back
        self.given_up = os.path.join(path, "given-up.json")  # cells that a resume leaves as they are
        self.readings = os.path.join(path, "readings")  # the patrol's samples over time
        self.start_lock = os.path.join(path, "start.lock")
        self.caretaker_lock = os.path.join(path, "caretaker.lock")
        self._planned: Optional[Dict[str, Any]] = None  # what the plan says of the platform; a plan never changes

    @property
    def address(self) -> str:
        """Path that names this folder to another of our processes: `folder_at` reads it back."""
        return self.path

    @property
    def label(self) -> str:
        """Name shown to people."""
        return self.run

    def read_plan(self) -> Optional[Dict[str, Any]]:
        """Return the plan with the cells that were added since, or None before there is one."""
        plan = read_json(self.plan)
        added = (read_json(self.added) or {}).get("cells") if plan is not None else None
        if plan is None or not added:
            return plan
        names = list(plan["cells"]) + [cell["name"] for cell in added]
        job = dict(plan["job"], cells=list(plan["job"].get("cells") or []) + added)
        return dict(plan, cells=names, job=job)

    @classmethod
    def below(cls, root: str, run: str) -> "RunFolder":
        """Return the folder of a run."""
        return cls(os.path.join(root, "active", check_name(run, "run")))

    def cell(self, cell: str) -> str:
        """Folder of a cell's attempts."""
        return os.path.join(self.path, "cells", check_name(cell, "cell"))

    def cell_lock(self, cell: str) -> str:
        """Lock that the keeper takes and the trainer inherits."""
        return os.path.join(self.cell(cell), "lock")

    def attempt(self, cell: str, attempt: int) -> str:
        """Folder of one attempt."""
        return os.path.join(self.cell(cell), "attempt-%04d" % attempt)

    def hook_due(self, cell: str, attempt: int) -> str:
        """Its presence after an attempt shows that the platform's hook did not let it begin."""
        return os.path.join(self.attempt(cell, attempt), "hook-due")

    def save_request(self, cell: str) -> str:
        """Its presence asks the trainer to save at its next step; `.done` beside it then holds the step."""
        return os.path.join(self.cell(cell), "save-request")

    def arriving(self, cell: str) -> str:
        """Where a state from another box grows until it is whole."""
        return os.path.join(self.path, "arriving", check_name(cell, "cell"))

    def laid(self, cell: str) -> str:
        """The state that was laid into `out` for the next attempt, and where it came from."""
        return os.path.join(self.cell(cell), "laid.json")

    def replaced(self, cell: str) -> str:
        """Older states of this box that a state from another one replaced."""
        return os.path.join(self.path, "replaced", check_name(cell, "cell"))

    def work(self, cell: str) -> str:
        """The cell's private copy of the code: the trainer's working folder."""
        return os.path.join(self.path, "work", check_name(cell, "cell"))

    def out(self, cell: str) -> str:
        """The cell's isolated output folder: LEASE_OUT."""
        return os.path.join(self.path, "out", check_name(cell, "cell"))

    def sealed(self, cell: str) -> str:
        """Marks that the cell's promised artifacts were all there, and what they hash to."""
        return os.path.join(self.cell(cell), "sealed.json")

    def platform(self) -> Dict[str, Any]:
        """Return the platform facts that home sent last: a corrected hook must reach a run whose plan is older."""
        said = read_json(self.environment)
        if said is None and self._planned is None:
            plan = read_json(self.plan)
            self._planned = None if plan is None else plan.get("environment") or {}
        return said if said is not None else self._planned or {}

    def setup_done(self, cell: str) -> str:
        """Its presence shows that set-up succeeded in this cell's working copy."""
        return os.path.join(self.cell(cell), "setup-done")

    def env_passed(self, cell: str) -> str:
        """Its presence shows that the environment gate let this cell's trainer start."""
        return os.path.join(self.cell(cell), "env-passed")

    def env_known(self, key: str) -> str:
        """The answer of an interpreter when it last passed for this key, on this box, for every run."""
        return os.path.join(self.root, "environments", key + ".json")

    @property
    def root(self) -> str:
        """Our folder on the box, which holds all runs."""
        return os.path.dirname(os.path.dirname(self.path))

    @property
    def data(self) -> str:
        """LEASE_DATA: what jobs download, kept for every run of this box."""
        return os.path.join(self.root, "data")

    @property
    def secrets(self) -> str:
        """Values of the job's secrets, 0600, beside the run folders so that no copy of a run carries them.

        Where the platform names a private tier and our root lies elsewhere, they lie there instead.
        """
        private = os.path.expanduser(str(self.platform().get("credentials") or ""))
        inside = self.root == private or self.root.startswith(private.rstrip("/") + "/")
        if not private.startswith("/") or inside:
            return os.path.join(self.root, "secrets", self.run + ".json")
        from binascii import crc32  # few platforms have such a tier

        own = ".leasehold-secrets-" + "%08x" % crc32(os.fsencode(self.root))
        return os.path.join(private, own, self.run + ".json")

    def forget_secrets(self) -> None:
        """Remove the values: the run has ended."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.secrets)

    @property
    def notify(self) -> str:
        """The user's notification channels, 0600: their addresses are as sensitive as passwords."""
        return os.path.join(os.path.dirname(self.secrets), self.run + ".notify.json")

    @property
    def relaunch_environment(self) -> str:
        """Variables that a restarted box lacks, 0600."""
        return os.path.join(os.path.dirname(self.secrets), self.run + ".relaunch.json")

    def mark(self, cell: str = "", attempt: int = 0) -> str:
        """Name that our processes carry in LEASE_ATTEMPT_ID; folder-bound, so two boxes on one host differ."""
        parts = [self.path.replace("/", "|"), cell, str(attempt) if attempt else ""]
        return "/".join(part for part in parts if part)


class CellFolder(RunFolder):
    """One cell of a run with its own caretaker, on its own machine, with its own journal and locks.

    Code, outputs and attempts lie where the run's other cells have them, so that results are brought home as always.
    """

    respawns = False  # the cluster ends what is left on the node, and starts the cell anew elsewhere

    def __init__(self, path: str, cell: str) -> None:
        super().__init__(path)
        self.only = check_name(cell, "cell")
        place = self.cell(cell)
        self.plan = os.path.join(place, "plan.json")  # its own share of it: the whole may have ten thousand cells
        self.journal = os.path.join(place, "journal.jsonl")
        self.status = os.path.join(place, "status.json")
        self.readings = os.path.join(place, "readings")
        self.start_lock = os.path.join(place, "start.lock")
        self.caretaker_lock = os.path.join(place, "caretaker.lock")

    @property
    def address(self) -> str:
        """The cell's own folder."""
        return self.cell(self.only)

    @property
    def label(self) -> str:
        """Name shown to people: one cell of many."""
        return "%s/%s" % (self.run, self.only)

    def forget_secrets(self) -> None:
        """Keep them: the other cells need them, and the process that gathers the run's end removes them."""

    def read_plan(self) -> Optional[Dict[str, Any]]:
        """Return the plan as if the run had this cell alone; None where it was not given its share of it yet."""
        return read_json(self.plan)


def folder_at(address: str) -> RunFolder:
    """Return the folder of a run, or of a cell with its own caretaker."""
    above, cell = os.path.split(address)
    if os.path.basename(above) == "cells":
        return CellFolder(os.path.dirname(above), cell)
    return RunFolder(address)


def runs_below(root: str) -> List[RunFolder]:
    """List the folders of runs below a root, by name."""
    active = os.path.join(root, "active")
    names = sorted(filter(NAME.match, os.listdir(active))) if os.path.isdir(active) else []
    return [RunFolder(os.path.join(active, name)) for name in names]
