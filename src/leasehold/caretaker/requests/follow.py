"""One stream of everything that happens to a run: events, log bytes, and signs of life."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Set

from leasehold.caretaker.process.locks import is_held
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.scrub_secrets import read_log, redactor_of, whole_words
from leasehold.caretaker.status.observe import gatherer_of, proof_age_s
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_state import RunState, fold
from leasehold.kit.run.run_states import FAILED, FINISHED, TERMINAL
from leasehold.kit.wire import frames

_POLL_S = 0.03
_BEAT_S = 5.0
_GATHER_S = 0.5
_GATHER_PAUSE = 9.0  # of the time that gathering takes
_JOURNAL_READ_BYTES = 1 << 20
_LOG_BURST_BYTES = 4 << 20


class Following:
    """Position of one listener: journal offset, and log offset of each attempt."""

    def __init__(self, request: Request, folder: RunFolder, offset: int, logs: Dict[str, int]) -> None:
        self._request = request
        self._folder = folder
        self._logs = logs
        self._offset = offset
        self._run: RunState = fold(journal.read_from(folder.journal, 0)[0]) if offset else RunState()
        self._beat_at = 0.0
        self._cluster = gatherer_of(folder)
        self._gather_due = 0.0
        self._drained: Set[str] = set()  # logs of ended attempts that were sent to their end
        self._held: List[Dict[str, Any]] = []  # events of an end that wait for the log before it

    def only_tail(self, tail_bytes: int) -> None:
        """Of the logs that exist now and home has not seen, send only the last tail_bytes."""
        self._send_events()
        for name, cell in self._run.cells.items():
            path = os.path.join(self._folder.attempt(name, cell.attempt), "log")
            key = "%s/%d" % (name, cell.attempt)
            if cell.attempt and key not in self._logs and os.path.exists(path):
                self._logs[key] = max(0, os.path.getsize(path) - tail_bytes)

    def live(self, until: float) -> None:
        """Send what is new until the run has ended and its log is sent, home disconnects, or time is up."""
        while not self._request.gone:
            self._gather()
            moved = self._send_log()
            moved = self._send_events(log_moves=moved) or moved
            self._send_beat()
            if self._run.terminal and not moved:
                if self._cluster is not None:
                    self._cluster.gather()  # the process that gathered the end has then written its figures too
                self._send_beat(last=True)
                return
            if time.monotonic() >= until:
                return
            if not moved:
                time.sleep(_POLL_S)

    def _gather(self) -> None:
        """Gather for at most a tenth of the time: with thousands of cells it takes seconds."""
        begun = time.monotonic()
        if self._cluster is not None and begun >= self._gather_due:
            self._cluster.gather()
            took_s = time.monotonic() - begun
            self._gather_due = time.monotonic() + max(_GATHER_S, _GATHER_PAUSE * took_s)

    def _send_events(self, log_moves: bool = False) -> bool:
        """Send what is new; the end of a cell's newest attempt waits until its log is sent."""
        if self._held:
            if not log_moves:
                found, self._held = self._held, []
                self._tell(found, self._offset)
            return True
        before = self._offset
        found, self._offset = journal.read_from(self._folder.journal, self._offset, _JOURNAL_READ_BYTES)
        cut = self._first_end(found)
        self._held = found[cut:]
        if cut:
            # Home resumes at `before` if it disconnects now, and so receives again what is held.
            self._tell(found[:cut], before if self._held else self._offset)
        return bool(found)

    def _tell(self, events: List[Dict[str, Any]], offset: int) -> None:
        fold((event for event in events if event["n"] > self._run.seq), into=self._run)
        self._request.reply({"events": events, "offset": offset, "proof_age_s": self._proof_age_s()})

    def _first_end(self, events: List[Dict[str, Any]]) -> int:
        """Return the index of the first end of a newest attempt among these events."""
        newest = {name: cell.attempt for name, cell in self._run.cells.items()}
        starts = [event for event in events if event.get("k") == "attempt_starting"]
        newest.update({str(event.get("cell")): int(event.get("attempt", 0)) for event in starts})
        for place, event in enumerate(events):
            if event.get("k") == "attempt_ended" and event.get("attempt") == newest.get(str(event.get("cell"))):
                return place
        return len(events)

    def _send_log(self) -> bool:
        moved = False
        for name, cell in self._run.cells.items():
            if cell.attempt:
                moved = self._send_attempt_log(name, cell.attempt) or moved
        return moved

    def _send_attempt_log(self, name: str, attempt: int) -> bool:
        key = "%s/%d" % (name, attempt)
        if key in self._drained:
            return False
        offset = self._logs.get(key, 0)
        place = self._folder.attempt(name, attempt)
        path = os.path.join(place, "log")
        ended = self._run.cells[name].state in (FINISHED, FAILED)  # read before the size: nobody writes any more
        if not os.path.exists(path) or os.path.getsize(path) <= offset:
            self._drained.update([key] if ended else [])
            return False
        growing = not os.path.exists(os.path.join(place, "exit.json")) and is_held(self._folder.cell_lock(name))
        data = read_log(path, offset, _LOG_BURST_BYTES, redactor_of(self._folder))
        data = whole_words(data) if growing else data
        if not data:
            return False
        self._request.reply({"log": {"cell": name, "attempt": attempt, "offset": offset, "bytes": len(data)}})
        for start in range(0, len(data), frames.CHUNK_BYTES):
            self._request.data(data[start : start + frames.CHUNK_BYTES])
        self._logs[key] = offset + len(data)
        return True

    def _send_beat(self, last: bool = False) -> None:
        if last or time.monotonic() - self._beat_at >= _BEAT_S:
            self._beat_at = time.monotonic()
            status = read_json(self._folder.status) or {}
            told = {name: status.get(name) for name in ("work", "readings", "health")}
            proven = {"proof_age_s": self._proof_age_s(status)}
            self._request.reply(dict(told, beat_unix=time.time(), deserted=self._deserted(), **proven))

    def _proof_age_s(self, status: Optional[Dict[str, Any]] = None) -> Optional[float]:
        """Return the age of the caretaker's last sign of life; None where none is expected: at the end, on a cluster.

        A run that has ended is replayed event by event: until its end is sent, it looks as if it were running.
        """
        if self._run.terminal or self._held or self._cluster is not None:
            return None
        status = status if status is not None else read_json(self._folder.status) or {}
        return None if status.get("state") in TERMINAL else proof_age_s(status)

    def _deserted(self) -> bool:
        """Return whether the run has not ended and no caretaker, keeper or trainer lives to continue it."""
        if self._held:  # there is more to send, perhaps its end
            return False
        if self._cluster is not None:
            return not self._run.terminal and not self._cluster.alive
        locks = [self._folder.cell_lock(name) for name in self._run.cells] + [self._folder.caretaker_lock]
        locks += [self._folder.downloads_lock, self._folder.durable_lock]
        return not self._run.terminal and not any(is_held(lock) for lock in locks)


def parse_logs(value: object) -> Dict[str, int]:
    """Read {"cell/attempt": offset} from an untrusted request."""
    pairs: Dict[str, int] = {}
    if isinstance(value, dict):
        for key, offset in value.items():
            if isinstance(key, str) and isinstance(offset, int) and offset >= 0:
                pairs[key] = offset
    return pairs
