"""The file itself: append-only, whole transactions, many processes, the right journal."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import HomeError
from leasehold.ledger import store
from leasehold.ledger.store import SCHEMA_VERSION, Ledger


def test_what_is_appended_is_read_back_in_order(ledger):
    for n in range(5):
        ledger.append("note", lease="l", run=f"r{n % 2}", n=n, text="中\n文")
    events = list(ledger.events())
    assert [event.data for event in events] == [{"n": n, "text": "中\n文"} for n in range(5)]
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [event.t for event in events] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [event.data["n"] for event in ledger.events(run="r1")] == [1, 3]
    assert list(ledger.events(lease="other")) == []
    assert len(list(ledger.events(lease="l", run="r0", kind="note"))) == 3


def test_append_returns_the_event_it_wrote(ledger):
    assert ledger.append("note", lease="l", run="r", a=1) == next(ledger.events())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = '{}'",
        "UPDATE events SET kind = 'waived' WHERE seq = 1",
        "DELETE FROM events",
        "DELETE FROM events WHERE seq = 1",
        "REPLACE INTO events (seq, t, kind, lease, run, data) VALUES (1, 0, 'x', '', '', '{}')",
        "INSERT OR REPLACE INTO events (seq, t, kind, lease, run, data) VALUES (1, 0, 'x', '', '', '{}')",
    ],
)
def test_events_are_never_changed_or_deleted(ledger, statement):
    ledger.append("note", a=1)
    ledger.append("note", a=2)
    before = list(ledger.events())
    other = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError):
        other.execute(statement)
    other.close()
    assert list(ledger.events()) == before


def test_a_transaction_that_fails_leaves_nothing(ledger):
    ledger.append("note", a=1)
    rows = ledger.query("SELECT * FROM leases")
    with pytest.raises(ZeroDivisionError), ledger.transaction() as append:
        append("lease_opened", "box-1", "", {"box": "b", "platform": "local", "root": "/", "price": ""})
        append("note", "", "", {"a": 2})
        raise ZeroDivisionError
    assert [event.data for event in ledger.events()] == [{"a": 1}]
    assert ledger.query("SELECT * FROM leases") == rows
    ledger.append("note", a=3)
    assert [event.data["a"] for event in ledger.events()] == [1, 3]


def test_an_event_that_cannot_be_spelled_leaves_nothing(ledger):
    with pytest.raises(TypeError):
        ledger.append("note", what=object())
    assert list(ledger.events()) == []
    ledger.append("note", a=1)


def test_an_event_whose_projection_fails_leaves_nothing(ledger):
    with pytest.raises(KeyError):
        ledger.append("lease_opened", lease="box-1")  # lacks box, platform and root
    assert list(ledger.events()) == []
    assert ledger.query("SELECT * FROM leases") == []


def test_a_process_that_dies_inside_a_transaction_leaves_nothing(ledger):
    code = f"""
        import os, pathlib
        from leasehold.ledger.store import Ledger
        ledger = Ledger(pathlib.Path({str(ledger.path)!r}))
        with ledger.transaction() as append:
            append("note", "", "", {{"a": 1}})
            os._exit(9)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False).returncode == 9
    assert list(ledger.events()) == []
    ledger.append("note", a=2)
    assert [event.data for event in ledger.events()] == [{"a": 2}]


def test_the_file_survives_being_closed_and_opened(tmp_path):
    first = Ledger(tmp_path / "l.sqlite")
    first.append("note", a=1)
    name = first.home_id
    first.close()
    second = Ledger(tmp_path / "l.sqlite")
    assert second.home_id == name
    assert [event.data for event in second.events()] == [{"a": 1}]
    second.close()


def test_two_homes_have_two_names(tmp_path):
    one, other = Ledger(tmp_path / "1.sqlite"), Ledger(tmp_path / "2.sqlite")
    assert one.home_id != other.home_id
    assert len(one.home_id) == 16
    one.close()
    other.close()


def test_the_path_may_be_anything(tmp_path, odd_name):
    book = Ledger(tmp_path / odd_name / "ledger.sqlite")
    book.append("note", a=1)
    assert (tmp_path / odd_name / "ledger.sqlite").exists()
    book.close()


WRITER = """
import pathlib, sys
from leasehold.ledger.store import Ledger
ledger = Ledger(pathlib.Path(sys.argv[1]))
print(ledger.home_id, flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    ledger.append("note", run=sys.argv[2], n=n)
    run = sys.argv[2] + str(n)
    ledger.append("run_planned", lease="l", run=run, plan={}, name="x", box="b", project="", results="")
"""


def write_side_by_side(path: Path, writers: int, events: int) -> list[str]:
    """Start writers on one file, let them open it as they come, then all write at once; return their home ids."""
    argv = [sys.executable, "-c", WRITER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    children = [subprocess.Popen([*argv, f"w{n}", str(events)], **pipes) for n in range(writers)]
    said = [child.stdout.readline().strip() for child in children]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert (child.returncode, errors) == (0, "")
    return said


@pytest.mark.parametrize("network", [False, True], ids=["WAL", "DELETE"])
def test_processes_that_write_at_once_lose_nothing(tmp_path, monkeypatch, network):
    path = tmp_path / "ledger.sqlite"
    if network:  # the journal mode is kept in the file only for WAL, so the writers must choose alike
        write_side_by_side_on_network(path, monkeypatch)
    else:
        write_side_by_side(path, writers=3, events=15)
    book = Ledger(path)
    for n in range(3 if not network else 2):
        assert [event.data["n"] for event in book.events(run=f"w{n}")] == list(range(15))
    assert book.query("SELECT count(*) FROM runs") == [(45 if not network else 30,)]
    book.close()


def write_side_by_side_on_network(path, monkeypatch):
    code = "import leasehold.ledger.store as s; s._wal_is_safe = lambda folder: False\n" + WRITER
    monkeypatch.setattr(sys.modules[__name__], "WRITER", code)
    write_side_by_side(path, writers=2, events=15)


def test_processes_that_open_a_new_home_at_once_agree_on_its_name(tmp_path):
    for attempt in range(3):
        said = write_side_by_side(tmp_path / f"{attempt}.sqlite", writers=4, events=1)
        assert len(set(said)) == 1


def test_opening_waits_for_a_command_that_holds_the_file(tmp_path):
    path = tmp_path / "ledger.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (a)")
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    timer.start()
    Ledger(path).close()
    timer.join()
    other.close()


def test_a_reader_sees_what_another_process_wrote(ledger):
    other = Ledger(ledger.path)
    other.append("note", a=1)
    assert [event.data for event in ledger.events()] == [{"a": 1}]
    other.close()


def test_a_newer_schema_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    raw.commit()
    raw.close()
    with pytest.raises(HomeError) as caught:
        Ledger(path)
    assert caught.value.code == "ledger.newer"
    assert "upgrade" in caught.value.hint
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)
    raw.close()


def spoiled_by_garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, it only looks like a file" * 50)


def spoiled_by_a_folder(path: Path) -> None:
    path.mkdir()


def spoiled_by_a_file_above(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("not a folder")


@pytest.mark.parametrize("spoil", [spoiled_by_garbage, spoiled_by_a_folder, spoiled_by_a_file_above])
def test_a_file_that_is_no_ledger_is_refused_with_its_path(tmp_path, spoil):
    path = tmp_path / "home" / "ledger.sqlite"
    path.parent.mkdir()
    spoil(path)
    with pytest.raises(HomeError) as caught:
        Ledger(path)
    assert caught.value.code == "ledger.unusable"
    assert str(path) in caught.value.message
    assert "LEASEHOLD_HOME" in caught.value.hint


# ---------------------------------------------------------------- which journal


@pytest.mark.parametrize("network, mode", [(False, "wal"), (True, "delete")])
def test_the_journal_fits_the_filesystem(tmp_path, monkeypatch, network, mode):
    monkeypatch.setattr(store, "_wal_is_safe", lambda folder: not network)
    book = Ledger(tmp_path / "ledger.sqlite")
    assert book.query("PRAGMA journal_mode") == [(mode,)]
    assert book.query("PRAGMA synchronous") == [(2,)]  # FULL: an intent is on disk before the act
    book.append("note", a=1)
    book.close()


def test_a_home_that_moved_to_a_network_leaves_wal(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    first = Ledger(path)
    first.append("note", a=1)
    first.close()
    monkeypatch.setattr(store, "_wal_is_safe", lambda folder: False)
    second = Ledger(path)
    assert second.query("PRAGMA journal_mode") == [("delete",)]
    assert [event.data for event in second.events()] == [{"a": 1}]
    second.close()


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home {nfs} nfs4 rw 0 0
server:/home {nfs}/local ext4 rw 0 0
//server/share {cifs} cifs rw 0 0
sshfs#a {sshfs} fuse.sshfs rw 0 0
none {tmp} tmpfs rw 0 0
short
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    """Pretend that folders below tmp_path are mount points; odd characters spelled as the kernel does."""
    root = tmp_path.resolve()

    def pretend(names: dict[str, str]) -> None:
        spelled = {key: kernel_spelling(str(root / name)) for key, name in names.items()}
        table = tmp_path / "mounts"
        table.write_bytes(MOUNTS.format(**spelled).encode("utf-8", "surrogateescape"))
        monkeypatch.setattr(store, "_MOUNTS", table)

    return pretend


def kernel_spelling(path: str) -> str:
    for char in ("\\", " ", "\t", "\n"):
        path = path.replace(char, f"\\{ord(char):03o}")
    return path


NAMES = {"nfs": "nfs", "cifs": "cifs", "sshfs": "sshfs", "tmp": "tmp"}


@pytest.mark.parametrize(
    "folder, network",
    [
        ("nfs", True),
        ("nfs/home/me", True),
        ("nfs/local", False),
        ("nfs/local/deep", False),
        ("nfs-but-not-really", False),
        ("cifs/x", True),
        ("sshfs/x", True),
        ("tmp/x", False),
        ("elsewhere", False),
    ],
)
def test_a_folder_is_judged_by_the_mount_it_lies_on(tmp_path, mounts, folder, network):
    mounts(NAMES)
    assert store._wal_is_safe(tmp_path / folder) is not network


@pytest.mark.parametrize("name", ["two words", "tab\there", "back\\slash", "训练 数据", "naïve", "caf\udce9"])
def test_a_mount_point_may_have_any_name(tmp_path, mounts, name):
    mounts({**NAMES, "nfs": name})
    assert not store._wal_is_safe(tmp_path / name / "home")
    assert store._wal_is_safe(tmp_path / "elsewhere")


def test_where_no_mount_table_says_so_the_disk_is_not_taken_for_our_own(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_MOUNTS", tmp_path / "none")
    assert not store._wal_is_safe(tmp_path)


def synced_at(folder: Path, kind: str, **data: Any) -> int:
    """Append an event; say which level of syncing it was written at: 2 is at once, 1 with the next."""
    seen: list[int] = []

    def clock() -> float:
        seen.append(ledger.query("PRAGMA synchronous")[0][0])
        return 1.0

    ledger = Ledger(folder / "ledger.sqlite", clock=clock)
    ledger.append(kind, lease="l", run="r", state="running", work={}, **data)
    assert ledger.query("PRAGMA synchronous") == [(2,)]
    return seen[0]


def test_a_seeing_that_ends_a_waiver_is_on_disk_at_once(tmp_path: Path) -> None:
    assert synced_at(tmp_path, "run_seen", did="resumed", trains_again=["main"]) == 2
    assert synced_at(tmp_path, "run_seen", did="resumed", trains_again=[]) == 1


def test_a_gate_that_a_person_skipped_is_on_disk_at_once(tmp_path: Path) -> None:
    assert synced_at(tmp_path, "gate_judged", skipped=True, because="I know") == 2
    assert synced_at(tmp_path, "gate_judged", skipped=False) == 1


def test_without_a_wal_everything_is_on_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_wal_is_safe", lambda folder: False)
    assert synced_at(tmp_path, "run_seen") == 2


@pytest.mark.parametrize(("kind", "level"), [("detach_proven", 2), ("gate_judged", 1), ("run_seen", 1)])
def test_only_what_can_be_asked_or_judged_anew_waits_for_the_next_intent(tmp_path: Path, kind: str, level: int) -> None:
    assert synced_at(tmp_path, kind) == level


def test_a_write_that_could_not_begin_leaves_the_turn_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_BUSY_S", 0.01)
    path = tmp_path / "ledger.sqlite"
    first, second = Ledger(path), Ledger(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for ledger in (first, second):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            ledger.append("note")
    other.execute("ROLLBACK")
    second.append("note")
    first.append("note")
    assert len(list(first.events())) == 2


def test_a_write_that_fails_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path / "ledger.sqlite"), Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(ZeroDivisionError), first.transaction() as append:
        append("note", "", "", {})
        raise ZeroDivisionError
    second.append("note")
    assert len(list(first.events())) == 1
