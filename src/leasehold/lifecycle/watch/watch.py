"""Watch: read the caretaker's journal as it grows; survive lost links; never read silence as success."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError
from leasehold.kit.events.cluster_events import say_waits
from leasehold.kit.events.table import describe
from leasehold.kit.failure.back_off import pause_after
from leasehold.kit.run.run_state import RunState, fold
from leasehold.lifecycle.box.health import STALE_BEAT_S
from leasehold.lifecycle.preflight.box_verdicts import record_on_box
from leasehold.lifecycle.smoke.log_lines import LogLines
from leasehold.model.run.note import Note, Report
from leasehold.model.values.wording import ago

from .box_readings import newest, shape

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import Followed
    from leasehold.ledger.store import Ledger
    from leasehold.lifecycle.machine.box import Box
    from leasehold.platforms.contract import Engine

    from .side_duties import Minder


_WHOLE_LOG = 1 << 60  # an offset past the end of any log
_GIVE_UP_S = 24 * 3600.0
_FETCH_LOOK_S = 5.0


class NotOver(Exception):
    """The run has not ended in time: its caretaker gives no sign of life, or a process outlives SIGKILL."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class Watch:
    """A watcher's position in a run's journal and logs."""

    run: str
    lease: str
    box: Box
    offset: int = 0
    logs: dict[str, int] = field(default_factory=dict)
    state: RunState = field(default_factory=RunState)
    seen_unix: float = 0.0
    quiet_to_seq: int = 0  # events up to here are folded but not shown
    tail_bytes: int = -1  # of a newly found log, show only this much; -1 shows all
    wants_readings: bool = False
    started_log: bool = False
    minder: Minder | None = None  # records what beats report, and warns of the budget
    on_change: Sequence[Callable[[RunState], None]] = ()  # further duties, called when the run's state has changed
    patience_s: float = _GIVE_UP_S  # for a box that does not answer
    deadline_s: float = float("inf")  # monotonic: after it, a run that cannot end is not waited for
    proof_age_s: float | None = None  # of the caretaker's last sign of life, as last reported by the box
    fetching: bool = False  # downloads are under way: the trainer's first line may take hours

    def until_end(self, ledger: Ledger, engine: Engine | None, report: Report) -> RunState:
        """Follow until the run has ended, then close the connection."""
        state, engine = self.follow_to_end(ledger, engine, report)
        engine.close()
        return state

    def follow_to_end(self, ledger: Ledger, engine: Engine | None, report: Report) -> tuple[RunState, Engine]:
        """Follow until the run has ended; reconnect with capped back-off, reporting unknown meanwhile.

        Return the state and the open connection that saw it; the caller closes that.
        """
        failures = 0
        heard = time.monotonic()
        limit_s = min(self.patience_s, self.box.limits.first_word_s)
        while True:
            try:
                engine = engine or self.box.connect()
                if failures:
                    report(Note("link_back", f"connected to {self.box.name} again"))
                failures, heard, limit_s = 0, time.monotonic(), self.patience_s
                self._follow(ledger, engine, report)
                if self.state.terminal:
                    return self.state, engine
            except LinkError as error:
                heard = time.monotonic() if not failures else heard  # it answered until now
                if error.code in _HOPELESS or time.monotonic() - heard > limit_s:
                    raise
                self.say_unknown(error, failures, report)
                failures += 1
                time.sleep(pause_after(failures))
            finally:
                if engine is not None and not self.state.terminal:
                    engine.close()
                    engine = None

    def until_first_line(self, ledger: Ledger, engine: Engine, report: Report, limit_s: float = 60) -> bool:
        """Follow until the trainer's first output line or its end; return whether it came within limit_s."""
        deadline = time.monotonic() + limit_s
        for item in engine.observe.follow(self.run, self.offset, self.logs, self.tail_bytes):
            self._take(item, ledger, report)
            patience_s = _FETCH_LOOK_S - limit_s if self.comes_first else 0.0
            if self.started_log or self.state.terminal or time.monotonic() > deadline + patience_s:
                break
        return self.started_log or self.state.terminal

    def pass_over(self, cells: dict[str, Any]) -> None:
        """Skip the logs of attempts that ended before a resume: they do not show how it starts now."""
        for name, cell in cells.items():
            for attempt in range(1, int(cell["attempt"]) - int(cell["tries"]) + 1):
                self.logs[f"{name}/{attempt}"] = _WHOLE_LOG

    @property
    def comes_first(self) -> str:
        """Return what must happen before the trainer's first line and may take hours; empty when nothing must."""
        if self.fetching:
            return "downloads are still under way; the trainer starts after them"
        return say_waits(self.state)

    def _follow(self, ledger: Ledger, engine: Engine, report: Report) -> None:
        for item in engine.observe.follow(self.run, self.offset, self.logs, self.tail_bytes):
            self._take(item, ledger, report)
            self._require_progress()
            if self.wants_readings and isinstance(item, dict) and "beat_unix" in item:
                report(Note("readings", "", newest(item) or shape(engine.box.readings())))

    def _take(self, item: Followed | bytes, ledger: Ledger, report: Report) -> None:
        self.seen_unix = time.time()
        if isinstance(item, bytes):
            self.logs[self._log_key] += len(item)
            self.started_log = True
            self._say_log(self._lines.add(item), report)
        elif "log" in item:
            key = f"{item['log']['cell']}/{item['log']['attempt']}"
            if key != self._log_key:
                self._say_log(self._lines.rest(), report)
            self._log_key = key
            self.logs[self._log_key] = int(item["log"]["offset"])
        elif "events" in item:
            self._hear_proof(item)
            self._take_events(item, ledger, report)
        elif "beat_unix" in item:
            self._take_beat(item)
            self._take_proof(item, ledger, report)
            if self.minder is not None:
                self.minder.beat(item, report, self.proof_age_s)

    def _take_beat(self, item: Followed) -> None:
        """Refuse to wait on after two beats in a row without any process on the box: the wait would never end."""
        self._beats_alone = self._beats_alone + 1 if item.get("deserted") else 0
        if self._beats_alone >= 2 and self.state.detach == "sbatch":
            raise BoxError(
                "box.deserted",
                f"{self.run} has not ended, and no task of it is in the queue of {self.box.name}",
                seen=say_waits(self.state),
                hint="the identical lease run submits what is left",
            )
        if self._beats_alone >= 2:
            raise BoxError(
                "box.deserted",
                f"{self.run} has not ended, and no process is left on {self.box.name} to continue it",
                seen="no caretaker, keeper or trainer holds its lock",
                hint=f"was the box restarted? lease resume {self.run} starts it again",
            )

    def _hear_proof(self, item: Followed) -> None:
        age_s = item.get("proof_age_s")
        self.proof_age_s = float(age_s) if isinstance(age_s, int | float) else None

    def _take_proof(self, item: Followed, ledger: Ledger, report: Report) -> None:
        """Report when the caretaker falls silent although the box answers, and when it is alive again."""
        self._hear_proof(item)
        if not self.is_silent:
            if self._silent:
                report(Note("link_back", f"the caretaker of {self.run} gives signs of life again"))
            self._silent = False
        elif not self._silent:
            self._silent = True
            was, seen_unix = self.state.state, time.time() - (self.proof_age_s or 0.0)
            text = f"state unknown, last known {was}: {self._silence()}, though {self.box.name} answers"
            report(Note("unknown", text, {"code": "run.silent", "seen_unix": seen_unix}))
            ledger.append(
                "run_seen", lease=self.lease, run=self.run, state="unknown", seq=self.state.seq,
                reason=f"last known {was}; {self._silence()}", proven_unix=seen_unix,
            )  # fmt: skip

    @property
    def is_silent(self) -> bool:
        """Return whether the caretaker's last sign of life is too old to prove anything."""
        return self.proof_age_s is not None and self.proof_age_s > STALE_BEAT_S

    def _silence(self) -> str:
        return f"its caretaker has given no sign of life for {ago(self.proof_age_s or 0.0)}"

    def _require_progress(self) -> None:
        if time.monotonic() < self.deadline_s or self.state.terminal:
            return
        if self.is_silent:
            raise NotOver(self._silence())
        stuck = [cell.pid for cell in self.state.cells.values() if cell.state == "running"]
        if stuck:
            raise NotOver(f"pid {stuck[0]} has not ended in its grace")

    def _take_events(self, item: Followed, ledger: Ledger, report: Report) -> None:
        known = max(self.quiet_to_seq, self.state.seq)
        fold((event for event in item["events"] if event["n"] > self.state.seq), into=self.state)
        self.offset = int(item["offset"])
        self._say_log(self._lines.rest() if self.state.terminal else "", report)
        for event in item["events"]:
            self.fetching = (self.fetching or event["k"] == "download_started") and event["k"] != "downloads_ready"
            if event["k"] == "env_judged":
                record_on_box(ledger, self.lease, self.run, event)
            if event["n"] > known and not (self.minder and self.minder.knows(event)):
                report(Note("event", describe(event), event))
        ledger.append(
            "run_seen",
            lease=self.lease,
            run=self.run,
            state=self.state.state,
            seq=self.state.seq,
            reason=self.state.reason or say_waits(self.state),
            changed_unix=self.state.changed_unix,
            **({} if self.proof_age_s is None else {"proven_unix": time.time() - self.proof_age_s}),
        )
        self._call_duties()

    def _call_duties(self) -> None:
        """Call each duty once for each change of the run or of a cell."""
        mark = (self.state.state, [(cell.state, cell.attempt) for cell in self.state.cells.values()])
        if mark == self._stood:
            return
        self._stood = mark
        for duty in (*([self.minder.stands] if self.minder else ()), *self.on_change):
            duty(self.state)

    def _say_log(self, text: str, report: Report) -> None:
        if text:
            report(Note("log", text, {"log": self._log_key}))

    def say_unknown(self, error: LinkError, failures: int, report: Report) -> None:
        """Report that the state is unknown, since when, and when the next attempt is."""
        seen = (
            f"last seen {self.state.state} {ago(time.time() - self.seen_unix)} ago"
            if self.seen_unix
            else "never seen yet"
        )
        wait = pause_after(failures + 1)
        again = f"trying again in {wait:g} s (the run does not depend on this connection)"
        text = f"state unknown, {seen}: {error.message}; {again}"
        report(Note("unknown", text, {"code": error.code, "seen_unix": self.seen_unix}))

    _log_key: str = ""
    _beats_alone: int = 0
    _silent: bool = False
    _stood: object = None
    _lines: LogLines = field(default_factory=LogLines)


_HOPELESS = ("link.host_key_changed", "link.auth_failed", "link.no_program")
