"""A run's home copy: its journal, readings and logs, for when its box is gone. It offers the box's interface."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import LinkError
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.paths import UnsafePath, check_name
from leasehold.kit.files.rings import read_window
from leasehold.kit.run.run_state import fold
from leasehold.kit.text.safe_text import plain
from leasehold.kit.text.units import local_second
from leasehold.ledger import books
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.model.run.note import Note, Report
from leasehold.model.values.wording import ago

from .evidence import FOLDER, JOURNAL, READINGS, STATUS
from .result_folders import Folders

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import EventBatch, RunSeen, SeriesPart, Status
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import RunRecord
    from leasehold.platforms.contract import Engine, View

_CHUNK_BYTES = 1 << 18
_RECORDS = 500
_LOG_BYTES = 4000
_FOREVER_UNIX = 1e12


@dataclass(frozen=True)
class HomeCopy:
    """The evidence of one run at home, and when it was copied from the box."""

    folder: Path
    taken_unix: float
    why: str

    def __enter__(self) -> HomeCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no connection is open."""

    @property
    def observe(self) -> HomeCopy:
        """Return the run's state at the time of the copy."""
        return self

    @property
    def words(self) -> str:
        """Describe what is shown, from when, and why."""
        clock = local_second(self.taken_unix)
        return f"home copy of {clock} ({ago(max(0.0, time.time() - self.taken_unix))} ago): {self.why}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {"taken_unix": self.taken_unix, "folder": str(self.folder), "why": self.why}

    def look(self, run: str) -> RunSeen:
        """Return the run's state at the time of the copy."""
        state = fold(journal.read_from(str(self.folder / JOURNAL), 0)[0])
        status = self._status
        known = {key: status.get(key) for key in ("heartbeat_unix", "work", "standing", "health")}
        told = {**state.as_dict(), **known, "run": run, "terminal": state.terminal, "caretaker_alive": False}
        return cast("RunSeen", told)

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[EventBatch]:
        """Yield the journal in one batch."""
        found, end = journal.read_from(str(self.folder / JOURNAL), offset)
        yield {"events": found, "offset": end}

    def tail(self, run: str, cell: str, attempt: int, offset: int, follow_s: float) -> Iterator[bytes]:
        """Yield an attempt's log from a byte offset on."""
        try:
            path = self.folder / check_name(cell, "cell") / f"attempt-{attempt:04d}" / "log"
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size + offset) if offset < 0 else offset)  # a negative one counts from the end
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
        except (FileNotFoundError, UnsafePath):
            return

    def series(self, run: str, last_s: int = 0) -> Iterator[SeriesPart]:
        """Yield what the patrol measured, up to the time of the copy."""
        records = list(read_window(str(self.folder / READINGS), 0.0, _FOREVER_UNIX))
        newest = records[-1]["t"] if records else 0.0  # by the box's clock, which may differ from ours
        records = [record for record in records if not last_s or record["t"] >= newest - last_s]
        for start in range(0, len(records), _RECORDS):
            yield {"records": records[start : start + _RECORDS]}
        status = self._status
        yield {"now_unix": self.taken_unix, "newest": status.get("readings"), "health": status.get("health")}

    @property
    def _status(self) -> Status:
        value = read_json(str(self.folder / STATUS))
        return cast("Status", value if isinstance(value, dict) else {})


def copy_of(record: RunRecord, why: str) -> HomeCopy | None:
    """Find the newest evidence of a run at home."""
    folders = Folders(Path(record.results), record.run)
    found = []
    for place in (folders.export, folders.evacuated, folders.partial):
        try:
            found.append(((place / FOLDER / JOURNAL).stat().st_mtime, place / FOLDER))
        except OSError:
            continue
    if not found:
        return None
    taken, folder = max(found)
    return HomeCopy(folder, taken, why)


def seen_from(home: Home, record: RunRecord, *, alone: bool = False) -> Engine | HomeCopy:
    """Connect to the box; if it is gone or does not answer, return the home copy, if there is one.

    With alone, use a connection of its own.
    """
    lease = books.find_lease(home.ledger, record.lease)
    if not lease.open:
        copy = copy_of(record, f"lease {lease.id} is closed")
        if copy is not None:
            return copy
    box = box_of(home, lease)
    try:
        return box.connect() if alone else box.look_in()
    except LinkError as error:
        copy = copy_of(record, f"{record.box} does not answer")
        if copy is None:
            raise error
        return copy


def tell_copy(seen: View, report: Report) -> None:
    """Report that a screen shows the home copy, and from when; report nothing for a box."""
    if isinstance(seen, HomeCopy):
        report(Note("home_copy", seen.words, seen.as_dict()))


def tell_all(copy: HomeCopy, run: str, report: Report) -> str:
    """Report a run's events and the end of its newest logs from the home copy; return its state."""
    from leasehold.kit.events.table import describe

    tell_copy(copy, report)
    for batch in copy.events(run, 0, 0):
        for event in batch["events"]:
            report(Note("event", describe(event), event))
    seen = copy.look(run)
    for cell, state in seen["cells"].items():
        for chunk in copy.tail(run, cell, int(state.get("attempt") or 0), -_LOG_BYTES, 0):
            report(Note("log", plain(chunk.decode("utf-8", "replace")), {"log": cell}))
    return str(seen["state"])
