"""A run's life as a test sees it: `lease` as a real process, the run folder from behind, and what must be true.

Everything is found by pid: the caretaker by its lock, the keeper by its claim, the trainer by its start record.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from leasehold.kit.files import journal
from leasehold.kit.run.processes import is_alive
from leasehold.kit.run.run_state import RunState, fold
from tests.support import processes
from tests.support.beds import Bed, running

LEASE = str(Path(sys.executable).with_name("lease"))
TRAINER = Path(__file__).with_name("trainer.py")
STEPS = 5
PATIENCE_S = 60.0
TRUE_SUM = sum(step * step for step in range(1, STEPS + 1))

JOB: Dict[str, Any] = {
    "name": "life",
    "run": "exec python3 -I -S train.py",
    "artifacts": {"result.json": {"loads": "json", "keys": ["steps", "sum"]}},
}


class Line(NamedTuple):
    """One line of the trainers' diary."""

    what: str
    pid: int
    attempt: int
    step: int


class Lease:
    """One `lease` command as a process; what it says is kept in a file, for whoever must explain a failure."""

    def __init__(self, words: List[str], environment: Dict[str, str], said: Path) -> None:
        self.words = words
        self._said = said
        with said.open("wb") as file:
            self._child = subprocess.Popen(
                [LEASE, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
            )
        self.pid = self._child.pid

    @property
    def code(self) -> Optional[int]:
        """The exit code; None while it runs."""
        return self._child.poll()

    @property
    def said(self) -> str:
        """What it printed so far."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    @property
    def data(self) -> Any:
        """The JSON it printed; warnings on stderr lie in the same file, before it."""
        said = self.said
        return json.loads(said if said.startswith("{") else said[said.index("\n{") :])

    def wait(self, limit_s: float = PATIENCE_S) -> int:
        """Wait for its end."""
        try:
            return self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError("`lease %s` still runs after %d s:\n%s" % (self.words[0], limit_s, self.said)) from None

    def send(self, number: int) -> None:
        """Signal it, if it still runs."""
        if self._child.poll() is None:
            self._child.send_signal(number)

    def kill(self) -> None:
        """Kill and reap it."""
        self.send(signal.SIGKILL)
        self._child.wait()


class Life:
    """One job in a project of its own, on one bed; `lease` may be called from several homes."""

    def __init__(self, bed: Bed, folder: Path, job: Optional[Mapping[str, Any]] = None, step_s: float = 0.04) -> None:
        self.bed = bed
        self.folder = folder
        self.side = folder / "side"
        self.project = folder / "project"
        self.side.mkdir(parents=True)
        self.project.mkdir()
        shutil.copy(TRAINER, self.project / "train.py")
        env = {"SIDE": str(self.side), "STEPS": str(STEPS), "STEP_S": str(step_s)}
        value = {**JOB, **(job or {})}
        self.name = str(value["name"])
        value["env"] = {**env, **value.get("env", {})}
        self.job_file = self.project / "lease.yaml"
        self.job_file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")  # JSON is YAML
        self.leases: List[Lease] = []

    # ------------------------------------------------------------ commands

    def run(self, *options: str, home: str = "home", pause: str = "") -> Lease:
        """Start `lease run`; the identical call is the identical command."""
        results = str(self.results(home))
        return self.lease(
            "run", str(self.job_file), *self.bed.on, "--results", results, *options, home=home, pause=pause
        )

    def lease(self, *words: str, home: str = "home", pause: str = "") -> Lease:
        """Start any command in a home."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LEASE")}
        environment.update(self.bed.environment)
        environment.update({"LEASEHOLD_HOME": str(self.folder / home), "NO_COLOR": "1"})
        if pause:
            environment["LEASEHOLD_PAUSE"] = pause
        lease = Lease(list(words), environment, self.folder / ("said-%d" % len(self.leases)))
        self.leases.append(lease)
        return lease

    def run_to_mid_life(self) -> Lease:
        """Start `lease run` and wait until the trainer lingers in mid-life and the detachment is proven."""
        self.hold()
        lease = self.run()
        assert eventually(lambda: self.held() and "detach_proven" in self.ledger()), self.explain()
        return lease

    def close(self) -> None:
        """End the commands that still run."""
        for lease in self.leases:
            lease.kill()

    def explain(self) -> str:
        """Say everything that was said, for a failure."""
        parts = ["$ lease %s  -> %s\n%s" % (" ".join(x.words[:1]), x.code, x.said) for x in self.leases]
        lines = "".join("%s\n" % (event,) for event in self.events())
        return "\n".join([*parts, "journal:\n" + lines, "diary: %s" % self.diary()])

    # ------------------------------------------------------------ what lies about

    def results(self, home: str = "home") -> Path:
        """Where a home's results come to."""
        return self.folder / ("results of " + home)

    @property
    def run_folder(self) -> Optional[Path]:
        """The run's folder on the box, once it is there."""
        active = self.bed.root / "active"
        return next(iter(sorted(active.glob(self.name + "-*"))), None)

    @property
    def run_id(self) -> str:
        """The run's name."""
        folder = self.run_folder
        assert folder is not None, "no run on the box"
        return folder.name

    def events(self) -> List[Dict[str, Any]]:
        """Read the box's journal."""
        folder = self.run_folder
        return journal.read_from(str(folder / "journal.jsonl"), 0)[0] if folder else []

    def state(self) -> RunState:
        """Fold the box's journal."""
        return fold(self.events())

    def attempts(self) -> List[int]:
        """List the numbers of the attempts that were begun, as the journal tells."""
        return [event["attempt"] for event in self.events() if event["k"] == "attempt_starting"]

    def ends(self) -> List[Dict[str, Any]]:
        """List how attempts ended, as the journal tells."""
        return [event for event in self.events() if event["k"] == "attempt_ended"]

    def ledger(self, home: str = "home") -> List[str]:
        """List the kinds of a home's ledger events, in order."""
        path = self.folder / home / "ledger.sqlite"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)) as db:
            try:
                return [str(row[0]) for row in db.execute("SELECT kind FROM events ORDER BY seq")]
            except sqlite3.OperationalError:  # the tables are not there yet
                return []

    def diary(self) -> List[Line]:
        """Read what the trainers wrote."""
        try:
            lines = (self.side / "trainers").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Line(what, int(pid), int(attempt), int(step)) for what, pid, attempt, step in map(str.split, lines)]

    # ------------------------------------------------------------ who lives

    def homes(self) -> List[int]:
        """The lease commands that run."""
        return [lease.pid for lease in self.leases if lease.code is None]

    def caretaker(self) -> List[int]:
        """The process whose pid stands in caretaker.lock, while it cares."""
        folder = self.run_folder
        words = _text(folder / "caretaker.lock").split() if folder else []
        return [int(words[0])] if words and int(words[0]) in running("care", str(folder)) else []

    def keeper(self) -> List[int]:
        """The process that claimed the newest attempt, while it keeps."""
        place = self._attempt()
        claim = _text(place / "claim").strip() if place else ""
        return [int(claim)] if claim and int(claim) in running("keep", str(self.run_folder)) else []

    def trainer(self) -> List[int]:
        """The newest attempt's trainer, while it is that very process."""
        place = self._attempt()
        started = _text(place / "started.json") if place else ""
        if not started:
            return []
        value = json.loads(started)
        return [value["pid"]] if is_alive(value["pid"], value["started"]) else []

    def link(self) -> List[int]:
        """What carries the commands' connections."""
        return self.bed.links(self.homes())

    def stalled(self) -> bool:
        """Whether the run has not ended and nobody is left on the box who would go on with it."""
        if self.state().terminal or self.caretaker() or self.keeper():
            return False
        folder = self.run_folder
        return folder is not None and not running("care", str(folder)) and not running("keep", str(folder))

    def _attempt(self) -> Optional[Path]:
        folder = self.run_folder
        found = sorted((folder / "cells" / "main").glob("attempt-*")) if folder else []
        return found[-1] if found else None

    # ------------------------------------------------------------ holding and letting go

    def hold(self) -> None:
        """Make trainers linger in mid-life."""
        (self.side / "hold").touch()

    def release(self) -> None:
        """Let them go on."""
        with contextlib.suppress(FileNotFoundError):
            (self.side / "hold").unlink()

    def held(self) -> bool:
        """Whether a trainer has reached its middle."""
        return (self.side / "holding").exists()


def eventually(holds: Callable[[], Any], limit_s: float = PATIENCE_S) -> bool:
    """Poll until it holds, ever less eagerly, for a look through /proc costs something; tell whether it did."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.002
    while not holds():
        if time.monotonic() > deadline:
            return bool(holds())
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
    return True


def kill(pids: List[int]) -> None:
    """SIGKILL these and wait until they are gone."""
    processes.send(pids, signal.SIGKILL)
    assert eventually(lambda: not set(pids) & set(processes.snapshot())), "%s outlive SIGKILL" % pids


def kill_group(pids: List[int]) -> None:
    """SIGKILL the process group that each leads, and wait until the leaders are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    assert eventually(lambda: not set(pids) & set(processes.snapshot())), "%s outlive SIGKILL" % pids


# ---------------------------------------------------------------- what must be true in the end


def check_home(life: Life, home: str = "home") -> None:
    """One receipt, and results that are whole, correct and not set aside."""
    results = life.results(home)
    export = results / "export" / life.run_id if life.run_folder else next((results / "export").glob(life.name + "-*"))
    assert json.loads((export / "cells" / "main" / "result.json").read_text()) == {"steps": STEPS, "sum": TRUE_SUM}
    assert json.loads((export / "receipt.json").read_text())["files"] == 1
    assert sorted(path.name for path in (results / "export").iterdir()) == [".partial", export.name]
    assert [path for path in (results / "export" / ".partial").iterdir() if path.is_dir()] == []
    assert not (results / "quarantine").exists()
    assert life.ledger(home).count("receipt_written") == 1


def check_trainers(life: Life) -> None:
    """Never two at once; each began where the last one's checkpoint stood; no attempt twice."""
    diary = life.diary()
    assert [line for line in diary if line.what == "overlap"] == []
    saved = 0
    for line in diary:
        if line.what == "start":  # a kill may fall between a checkpoint and the note about it
            assert saved <= line.step <= saved + 1, "a trainer lost steps: %s" % (diary,)
        saved = max(saved, line.step)
    assert saved == STEPS
    attempts = [line.attempt for line in diary if line.what == "start"]
    assert len(set(attempts)) == len(attempts), "an attempt number was used twice: %s" % (diary,)


def check_journal(life: Life) -> None:
    """Readable to its last byte, numbered without a gap, each attempt once, and finished."""
    folder = life.run_folder
    assert folder is not None
    path = str(folder / "journal.jsonl")
    events, offset = journal.read_from(path, 0)
    assert offset == os.path.getsize(path), "the journal's tail cannot be read"
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert fold(events).state == "finished"
    for kind in ("attempt_starting", "attempt_started", "attempt_ended"):
        numbers = [event["attempt"] for event in events if event["k"] == kind]
        assert numbers == sorted(set(numbers)), "%s repeats: %s" % (kind, numbers)
    starting = [event["attempt"] for event in events if event["k"] == "attempt_starting"]
    assert starting == list(range(1, len(starting) + 1))


def check_nobody_left(life: Life) -> None:
    """Whatever carried the run is gone."""
    assert eventually(lambda: not life.bed.leftovers()), "left running: %s" % [
        (pid, _text(Path("/proc", str(pid), "cmdline"))) for pid in life.bed.leftovers()
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
