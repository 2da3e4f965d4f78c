"""The home's ledger: events in SQLite, appended and never changed; reads go through a rebuildable projection."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leasehold
from leasehold.errors import HomeError
from leasehold.kit.testing.kill_points import pause_at
from leasehold.kit.text.redact import Redactor

from . import projection

SCHEMA_VERSION = 3  # of events and projection; an older ledger is folded again at its next opening
_BUSY_S = 30.0
_SYNCED = "PRAGMA synchronous=FULL"  # an intent must be on disk before the act
_FOLLOWS = "PRAGMA synchronous=NORMAL"  # whole and in order all the same, and on disk with the next synced one
_NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "lustre", "fuse.sshfs", "gpfs", "ceph", "afs")
_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(rb"\\([0-7]{3})")  # how the kernel escapes blanks and backslashes there
# Names and proofs must stay unchanged; plans with secrets in them are refused earlier. Events that the box has
# recorded, or that can be judged anew: on disk with the next intent (decision 30).
_FOLLOWING = frozenset({"run_seen", "run_work", "gate_judged", "env_passed"})
_LOCKS: dict[Path, threading.Lock] = {}  # by file: whose turn it is to write, among the threads of this process
_KEPT = frozenset(
    {
        "plan",
        "receipt",
        "digest",
        "export",
        "project",
        "results",
        "root",
        "box",
        "platform",
        "evidence",
        "label",
        "holding",
    }
)
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, t REAL NOT NULL, kind TEXT NOT NULL,
  lease TEXT NOT NULL, run TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_by_run ON events (run, seq);
CREATE INDEX IF NOT EXISTS events_by_lease ON events (lease, seq);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'ledger events are never changed'); END;
CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'ledger events are never deleted'); END;
CREATE TRIGGER IF NOT EXISTS events_keep_place BEFORE INSERT ON events
  WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
  BEGIN SELECT RAISE(ABORT, 'ledger events are never replaced'); END;
"""


@dataclass(frozen=True)
class LedgerEvent:
    """An event that happened, or is about to."""

    seq: int
    t: float
    kind: str
    lease: str
    run: str
    data: dict[str, Any]


class Ledger:
    """One SQLite file. Opening it twice is fine; writers queue."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, redactor: Redactor | None = None) -> None:
        """Open the file; redactor removes secrets from appended events (without one, anything shaped like a token)."""
        self.path = path
        self._clock = clock
        self._redactor = redactor or Redactor()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise HomeError(
                "ledger.unusable",
                f"the ledger {path} cannot be used: {error}",
                hint="set LEASEHOLD_HOME to a folder that can be written, or mend the file's permissions",
            ) from None

    @property
    def home_id(self) -> str:
        """Return this home's own id, random and constant."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'home_id'").fetchone()
        return str(row[0])

    def append(self, kind: str, *, lease: str = "", run: str = "", **data: Any) -> LedgerEvent:
        """Record one event and its effect on the projection in one transaction."""
        with self.transaction(_FOLLOWS if _may_follow(kind, data) and self._has_wal else _SYNCED) as append:
            return append(kind, lease, run, data)

    def transaction(self, how: str = _SYNCED) -> _Transaction:
        """Open a write transaction; nothing of it exists until it ends well."""
        turn = _Turn(_LOCKS.setdefault(self.path, threading.Lock()), self._db, how)
        return _Transaction(self._db, self._clock, self._redactor, turn)

    @property
    def _has_wal(self) -> bool:
        """Return whether an unsynced commit can corrupt nothing: without a WAL, a power failure may."""
        return bool(self._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")

    def events(self, *, run: str = "", lease: str = "", kind: str = "") -> Iterator[LedgerEvent]:
        """Read events in order, narrowed by run, lease or kind."""
        wanted = [(column, value) for column, value in (("run", run), ("lease", lease), ("kind", kind)) if value]
        where = " AND ".join(f"{column} = ?" for column, _ in wanted) or "1"
        query = f"SELECT seq, t, kind, lease, run, data FROM events WHERE {where} ORDER BY seq"
        for row in self._db.execute(query, [value for _, value in wanted]):
            seq, t, name, of_lease, of_run, data = row
            yield LedgerEvent(seq, t, name, of_lease, of_run, json.loads(data))

    def query(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Read the projection."""
        return self._db.execute(sql, args).fetchall()

    def rebuild(self) -> None:
        """Discard the projection and rebuild it from the events."""
        with self.transaction():
            self._fold_again()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _prepare(self) -> None:
        self._choose_journal("WAL" if _wal_is_safe(self.path.parent) else "DELETE")
        self._db.execute(_SYNCED)
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            writer = self._writer()
            raise HomeError(
                "ledger.newer",
                f"{self.path} was written by a newer leasehold (schema {version}; this version reads {SCHEMA_VERSION})",
                hint="upgrade leasehold" + (f" to {writer} or newer" if writer else ""),
            )
        if version == SCHEMA_VERSION:
            projection.create(self._db)
            return
        self._db.executescript(_TABLES)
        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('home_id', ?)", (os.urandom(8).hex(),))
        with self.transaction():
            if self._db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:  # nobody was faster
                self._fold_again()
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('leasehold', ?)", (leasehold.__version__,))
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _writer(self) -> str:
        """Return the version that wrote the ledger's layout; empty if it did not record that."""
        try:
            rows = self._db.execute("SELECT value FROM meta WHERE key = 'leasehold'").fetchall()
        except sqlite3.Error:  # a newer layout may have another table for it
            return ""
        return str(rows[0][0])[:40] if rows and rows[0][0] != leasehold.__version__ else ""

    def _fold_again(self) -> None:
        projection.drop(self._db)
        projection.create(self._db)
        for event in list(self.events()):
            projection.apply(self._db, event.t, event.kind, event.lease, event.run, event.data)

    def _choose_journal(self, mode: str) -> None:
        deadline = time.monotonic() + _BUSY_S
        while True:
            try:
                self._db.execute(f"PRAGMA journal_mode={mode}")
                return
            except sqlite3.OperationalError as error:  # two first commands at once: sqlite does not wait for this lock
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _may_follow(kind: str, data: dict[str, Any]) -> bool:
    """Return whether an event need not be on disk by itself: a person's decision (skip a gate, owe again) must be."""
    return kind in _FOLLOWING and not data.get("skipped") and not data.get("trains_again")


class _Turn:
    """One thread's turn to write, by a lock: without it, one of twenty boxes starting at once waited for seconds.

    sqlite makes a waiting writer retry after ever longer sleeps. Writers of other processes still wait like that.
    """

    def __init__(self, lock: threading.Lock, db: sqlite3.Connection, how: str) -> None:
        self._lock = lock
        self._db = db
        self._how = how
        self._held = False

    def begin(self) -> None:
        """Wait for the turn, as long as sqlite would wait for another process."""
        self._held = self._lock.acquire(timeout=_BUSY_S)
        try:
            if self._how != _SYNCED:
                self._db.execute(self._how)
            self._db.execute("BEGIN IMMEDIATE")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Let the next one write."""
        try:
            if self._how != _SYNCED:
                self._db.execute(_SYNCED)
        finally:
            if self._held:
                self._lock.release()


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT, with the pause points of rehearsals."""

    def __init__(self, db: sqlite3.Connection, clock: Callable[[], float], redactor: Redactor, turn: _Turn) -> None:
        self._turn = turn
        self._db = db
        self._clock = clock
        self._redactor = redactor
        self._kinds: list[str] = []

    def __enter__(self) -> Callable[[str, str, str, dict[str, Any]], LedgerEvent]:
        self._turn.begin()
        return self._append

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._end(kind)
        finally:
            self._turn.end()

    def _end(self, kind: type[BaseException] | None) -> None:
        if kind is not None:
            self._db.execute("ROLLBACK")
            return
        for name in self._kinds:
            pause_at("home." + name, "during")
        self._db.execute("COMMIT")
        for name in self._kinds:
            pause_at("home." + name, "after")

    def _append(self, kind: str, lease: str, run: str, data: dict[str, Any]) -> LedgerEvent:
        pause_at("home." + kind, "before")
        now = self._clock()
        data = self._redactor.tree(data, _KEPT)
        text = json.dumps(data, sort_keys=True, ensure_ascii=False)
        cursor = self._db.execute(
            "INSERT INTO events (t, kind, lease, run, data) VALUES (?, ?, ?, ?, ?)",
            (now, kind, lease, run, text),
        )
        projection.apply(self._db, now, kind, lease, run, data)
        self._kinds.append(kind)
        return LedgerEvent(int(cursor.lastrowid or 0), now, kind, lease, run, data)


def _wal_is_safe(folder: Path) -> bool:
    """Return whether folder is on a filesystem whose shared memory WAL can use; unknown, as on macOS, is no."""
    try:
        mounts = _MOUNTS.read_bytes().split(b"\n")
    except OSError:
        return False
    where = os.path.realpath(folder)
    best, kind = "", ""
    for words in (line.split() for line in mounts):
        if len(words) < 3:
            continue
        point = os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), words[1]))
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, os.fsdecode(words[2])
    return not kind.startswith(_NETWORK_FILESYSTEMS)
