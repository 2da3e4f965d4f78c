"""The book's names are unique, survive a rebuild, and hold while a meter counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.ledger import books, box_book
from leasehold.ledger.store import Ledger
from leasehold.model.lease.box import BoxEntry

GPU1 = BoxEntry(
    "gpu1", "ssh:root@h:22", "generic-ssh", "1.98USD/h", "/data", "/usr/bin/python3", "full", 5.0, "SHA256:x", "/k"
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.sqlite")
    yield opened
    opened.close()


def kinds(ledger: Ledger) -> list[str]:
    return [event.kind for event in ledger.events()]


def test_a_box_is_found_as_it_was_written(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    assert box_book.find(ledger, "gpu1") == GPU1
    assert box_book.entries(ledger) == [GPU1]
    assert box_book.find(ledger, "gpu") is None


def test_boxes_are_listed_in_the_order_they_came(ledger: Ledger) -> None:
    box_book.record(ledger, replace(GPU1, name="b", address="ssh:b", added_unix=2.0))
    box_book.record(ledger, replace(GPU1, name="a", address="ssh:a", added_unix=3.0))
    assert [entry.name for entry in box_book.entries(ledger)] == ["b", "a"]


def test_a_name_is_taken_once_and_the_hint_says_how_to_change_it(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    with pytest.raises(UserError) as raised:
        box_book.record(ledger, replace(GPU1, address="ssh:elsewhere"))
    assert raised.value.code == "box.exists"
    assert "--replace" in raised.value.hint
    assert kinds(ledger) == ["box_added"]


def test_one_machine_does_not_stand_under_two_names(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    with pytest.raises(UserError) as raised:
        box_book.record(ledger, replace(GPU1, name="gpu2"))
    assert raised.value.code == "box.known_address"
    assert "gpu1" in raised.value.message


def test_this_machine_may_have_several_names(ledger: Ledger) -> None:
    box_book.record(ledger, replace(GPU1, name="a", address="local"))
    box_book.record(ledger, replace(GPU1, name="b", address="local"))
    assert len(box_book.entries(ledger)) == 2


def test_replacing_changes_the_box_and_is_an_event_of_its_own(ledger: Ledger) -> None:
    moved = replace(GPU1, address="ssh:root@h:33")
    box_book.record(ledger, GPU1)
    box_book.record(ledger, moved, replace=True)
    assert box_book.entries(ledger) == [moved]
    assert kinds(ledger) == ["box_added", "box_changed"]


def test_writing_the_same_once_more_records_nothing(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    box_book.record(ledger, GPU1, replace=True)
    assert kinds(ledger) == ["box_added"]


def test_a_removed_box_is_gone_and_its_name_is_free(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    box_book.remove(ledger, "gpu1")
    assert box_book.entries(ledger) == []
    box_book.record(ledger, GPU1)
    assert kinds(ledger) == ["box_added", "box_removed", "box_added"]


def test_a_box_stays_while_a_lease_on_it_is_open(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    lease = books.open_lease(ledger, "gpu1", "generic-ssh", "", "")
    with pytest.raises(Refusal):
        box_book.remove(ledger, "gpu1")
    assert box_book.find(ledger, "gpu1") == GPU1
    ledger.append("lease_closed", lease=lease.id)
    box_book.remove(ledger, "gpu1")
    assert box_book.find(ledger, "gpu1") is None


def test_the_book_is_rebuilt_from_the_events(ledger: Ledger) -> None:
    box_book.record(ledger, GPU1)
    box_book.record(ledger, replace(GPU1, price="2USD/h"), replace=True)
    box_book.record(ledger, replace(GPU1, name="gone", address="ssh:gone"))
    box_book.remove(ledger, "gone")
    books.open_lease(ledger, "gpu1", "generic-ssh", "", "1USD/h")
    before = (box_book.entries(ledger), books.leases(ledger))
    ledger.rebuild()
    assert (box_book.entries(ledger), books.leases(ledger)) == before


def test_a_ledger_from_before_the_book_gets_its_table_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    first = Ledger(path)
    lease = books.open_lease(first, "ssh:h", "generic-ssh", "", "")
    first.close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE boxes")
        version = db.execute("PRAGMA user_version").fetchone()
    db.close()
    again = Ledger(path)
    box_book.record(again, GPU1)
    assert box_book.entries(again) == [GPU1]
    assert books.find_lease(again, lease.id) == lease
    assert again.query("PRAGMA user_version")[0] == version
    again.close()


def test_an_entry_with_a_field_of_tomorrow_still_reads(ledger: Ledger) -> None:
    ledger.append("box_added", **{**GPU1.as_dict(), "invented_later": 1})
    assert box_book.entries(ledger) == [GPU1]


def test_of_many_who_add_one_name_at_once_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()

    def attempt(number: int) -> bool:
        own = Ledger(path)
        try:
            box_book.record(own, replace(GPU1, address=f"ssh:h{number}"))
            return True
        except UserError:
            return False
        finally:
            own.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 1
