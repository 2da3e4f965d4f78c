"""The projection is nothing but a fold: thrown away and rebuilt, it is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.ledger import books, projection
from leasehold.ledger.store import Ledger
from tests.support.examples import FEW

LEASES = st.sampled_from(["box-1", "box-2"])
RUNS = st.sampled_from(["toy-1", "toy-2", "toy-3"])
WORDS = st.text(max_size=8)


def event(kind: str, **data: st.SearchStrategy):
    return st.tuples(st.just(kind), LEASES, RUNS, st.fixed_dictionaries(data))


RECEIPT = {
    "schema": "leasehold.receipt/1", "run": "toy-1", "plan_sha256": "p", "manifest_sha256": "m", "cells": ["main"],
    "files": 1, "bytes": 2, "loads": [], "opaque": [], "confinement": [], "verified_unix": 3,
}  # fmt: skip
EVENTS = st.one_of(
    event("lease_opened", box=WORDS, platform=WORDS, root=WORDS, price=st.sampled_from(["", "1USD/h"])),
    event("lease_priced", price=st.sampled_from(["2USD/h", "3EUR/h"])),
    event("lease_closed", verb=WORDS),
    event("lease_parked", verb=WORDS),
    event("lease_resumed", seen=WORDS),
    event("lease_disk", gb=st.dictionaries(WORDS, st.sampled_from(["50", "100.5"]), max_size=2), by=WORDS),
    event("lease_balance", amount=st.sampled_from(["37.5CNY", "1USD"])),
    event("run_work", work=st.fixed_dictionaries({"trained_s": st.integers(0, 9), "training": st.booleans()})),
    event("run_planned", plan=st.dictionaries(WORDS, WORDS), name=WORDS, box=WORDS, project=WORDS, results=WORDS),
    event("run_seen", state=st.sampled_from(["running", "finished", "unknown"]), seq=st.integers(0, 99), reason=WORDS),
    event("receipt_written", receipt=st.just(RECEIPT), export=WORDS),
    event("receipt_void", moved_to=WORDS),
    event("waived", cell=st.sampled_from(["main", "seed-1"]), by=WORDS),
    event("waiver_taken_back", cell=st.sampled_from(["main", "seed-1"]), by=WORDS),
    event("a_kind_of_next_year", anything=st.none() | WORDS),
)


def everything(ledger: Ledger) -> list[list[tuple]]:
    return [ledger.query(f"SELECT * FROM {table} ORDER BY 1") for table in ("leases", "runs")]


@FEW
@given(st.lists(EVENTS, max_size=25))
def test_rebuilding_gives_the_projection_that_appending_gave(events):
    with tempfile.TemporaryDirectory() as folder:
        ticks = iter(range(1, 1000))
        ledger = Ledger(Path(folder, "l.sqlite"), clock=lambda: float(next(ticks)))
        for kind, lease, run, data in events:
            ledger.append(kind, lease=lease, run=run, **data)
        before = everything(ledger)
        written = list(ledger.events())
        ledger.rebuild()
        assert everything(ledger) == before
        assert list(ledger.events()) == written
        ledger.close()


def test_parking_twice_keeps_the_first_moment_and_a_closed_lease_is_fixed(ledger):
    ledger.append("lease_opened", lease="box-1", box="b", platform="p", root="/", price="2USD/h")  # at 1
    for kind in ("lease_parked", "lease_parked", "lease_resumed", "lease_resumed", "lease_parked", "lease_parked"):
        ledger.append(kind, lease="box-1")
    held = books.find_lease(ledger, "box-1")
    assert (held.state, held.since_unix) == ("parked", 6.0)
    assert [(segment.from_unix, segment.to_unix, segment.state) for segment in held.segments(10.0)] == [
        (1.0, 2.0, "running"), (2.0, 4.0, "parked"), (4.0, 6.0, "running"), (6.0, 10.0, "parked"),
    ]  # fmt: skip
    ledger.append("lease_closed", lease="box-1")
    ledger.append("lease_resumed", lease="box-1")
    assert books.find_lease(ledger, "box-1").state == "closed"
    assert books.find_lease(ledger, "box-1").segments(99.0)[-1].to_unix == 8.0


def test_a_ledger_of_the_first_schema_is_folded_again_and_loses_nothing(tmp_path, ledger, plan_run):
    ledger.append("lease_opened", lease="box-1", box="b", platform="p", root="/", price="2USD/h")
    ledger.append("lease_priced", lease="box-1", price="3USD/h")
    plan_run("toy-1")
    before, home = everything(ledger), ledger.home_id
    with ledger.transaction():  # as an older leasehold left it: no such columns, its own number
        ledger.query("ALTER TABLE leases DROP COLUMN changes")
        ledger.query("ALTER TABLE runs DROP COLUMN work")
        ledger.query("PRAGMA user_version=1")
    ledger.close()
    opened = Ledger(tmp_path / "ledger.sqlite")
    assert (everything(opened), opened.home_id) == (before, home)
    assert books.find_lease(opened, "box-1").cost(2.0 + 3600 - 1) == "3.00 USD", "an hour at the newer price"
    opened.close()


def test_a_spoiled_projection_is_mended_by_rebuilding(ledger, plan_run):
    plan_run("toy-1")
    ledger.append("receipt_written", lease="box-1", run="toy-1", receipt=RECEIPT, export="/e")
    before = everything(ledger)
    with ledger.transaction():
        ledger.query("UPDATE runs SET receipt = '', state = 'finished'")
        ledger.query("DELETE FROM leases")
    assert everything(ledger) != before
    ledger.rebuild()
    assert everything(ledger) == before


def test_a_rebuild_that_fails_leaves_the_old_projection(ledger, plan_run, monkeypatch):
    plan_run("toy-1")
    before = everything(ledger)
    monkeypatch.setattr("leasehold.ledger.projection.apply", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ledger.rebuild()
    assert everything(ledger) == before


def test_a_run_is_planned_once_and_a_new_lease_takes_it_over(ledger, plan_run):
    plan_run("toy-1", lease="box-1")
    ledger.append("run_seen", lease="box-1", run="toy-1", state="running", seq=4)
    plan_run("toy-1", lease="box-2")
    (record,) = books.runs(ledger)
    assert (record.lease, record.state, record.seq) == ("box-2", "running", 4)


def test_waivers_add_up_and_a_repeated_one_counts_once(ledger, plan_run):
    plan_run("toy-1")
    for cell in ("b", "a", "b"):
        ledger.append("waived", run="toy-1", cell=cell)
    (record,) = books.runs(ledger)
    assert record.waived == ("a", "b")
    assert record.waives("a") and not record.waives("c")


@pytest.mark.parametrize(
    "seen, left",
    [
        ({"did": "resumed", "trains_again": ["a"]}, ("b",)),
        ({"did": "opened", "trains_again": ["a", "b"]}, ()),
        ({"did": "resumed"}, ()),  # by an older one of us, which trained every unfinished cell again
        ({"did": "added", "trains_again": []}, ("a", "b")),
        ({}, ("a", "b")),
    ],
)
def test_only_a_cell_that_trains_again_loses_its_waiver(ledger, plan_run, seen, left):
    plan_run("toy-1")
    for cell in ("a", "b"):
        ledger.append("waived", run="toy-1", cell=cell)
    ledger.append("run_seen", run="toy-1", state="running", seq=9, **seen)
    assert books.runs(ledger)[0].waived == left


def test_a_void_receipt_is_gone_from_the_run_but_not_from_the_events(ledger, plan_run):
    plan_run("toy-1")
    ledger.append("receipt_written", run="toy-1", receipt=RECEIPT, export="/e")
    assert books.receipt_of(books.runs(ledger)[0]) is not None
    ledger.append("receipt_void", run="toy-1", moved_to="/q")
    (record,) = books.runs(ledger)
    assert (books.receipt_of(record), record.home_since) == (None, "")
    assert [event.kind for event in ledger.events(run="toy-1")][1:] == ["receipt_written", "receipt_void"]


def test_a_closed_lease_keeps_its_first_end(ledger):
    books.open_lease(ledger, "b", "local", "/", "")
    ledger.append("lease_closed", lease="b-1")
    first = books.find_lease(ledger, "b-1").closed_unix
    ledger.append("lease_closed", lease="b-1")
    assert books.find_lease(ledger, "b-1").closed_unix == first > 0


def test_a_disk_that_takes_no_index_keeps_nobody_from_reading(ledger, plan_run, monkeypatch):
    plan_run("toy-1")
    monkeypatch.setattr(projection, "_INDEXES", "CREATE INDEX never ON no_such_table (x)")
    again = Ledger(ledger.path)
    assert [record.run for record in books.runs(again)] == [record.run for record in books.runs(ledger)]
    again.close()
