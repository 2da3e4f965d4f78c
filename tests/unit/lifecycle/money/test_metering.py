"""Meters from a home's ledger: cached facts, a person's word, budgets told once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.kit.run.run_state import fold
from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.box.lease_notes import note_disks, note_reached, tell
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money import budget
from leasehold.lifecycle.money.metering import meter_of, open_meters
from leasehold.lifecycle.records.orders import BoxWord
from leasehold.lifecycle.watch.side_duties import Minder
from leasehold.model.run.note import Note

HOUR, DAY = 3600.0, 86400.0


class Story:
    """A home's ledger, told event by event at times of our choosing."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.now = 1_800_000_000.0
        self.home.__dict__["ledger"] = Ledger(folder / "ledger.sqlite", clock=lambda: self.now)
        self.notes: list[Note] = []

    def tell(self, kind: str, run: str = "", lease: str = "ad-1", **data: Any) -> None:
        self.home.ledger.append(kind, lease=lease, run=run, **data)

    def lease(self, price: str = "2CNY/h", box: str = "ad", lease: str = "ad-1") -> None:
        root = "/root/autodl-tmp/leasehold"
        self.tell("lease_opened", lease=lease, box=box, platform="autodl", root=root, price=price)

    def run(self, lease: str = "ad-1", **job: Any) -> None:
        plan = {"cells": ["main"], "job": job}
        self.tell("run_planned", "toy", lease, plan=plan, name="toy", box="ad", project="", results="")
        self.tell("run_seen", "toy", lease, state="running", seq=3, did="opened")

    @property
    def record(self) -> Any:
        return books.find_run(self.home.ledger, "toy")

    @property
    def held(self) -> Any:
        return books.find_lease(self.home.ledger, "ad-1")

    def warn(self) -> list[str]:
        said: list[Note] = []
        budget.warn(self.home, self.record, self.now, said.append)
        return [note.text for note in said]

    def for_box(self, refuse: bool = True) -> dict[str, Any]:
        return budget.budget_for_box(self.home, "toy", self.notes.append, refuse=refuse)


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    told = Story(tmp_path)
    monkeypatch.setattr("leasehold.lifecycle.money.budget.time.time", lambda: told.now)
    yield told
    told.home.ledger.close()


# ---------------------------------------------------------------- meters


def test_a_parked_lease_keeps_counting_storage_and_has_its_release_date(story: Story) -> None:
    story.lease()
    story.tell("lease_disk", gb={"data disk": "150"}, by="audit")
    story.now += 10 * HOUR
    story.tell("lease_parked", verb="power-off")
    (meter,) = open_meters(story.home, story.now + DAY)
    assert meter.as_dict()["cost"] == {"CNY": "20.9350"}  # 34 h of 100 GB at 0.0066 a day on top of 10 h
    assert meter.meter.next_clock is not None
    assert meter.meter.next_clock.due_unix == story.now + 15 * DAY
    assert meter.meter.next_clock.deletes == ("system disk", "data disk")


def test_your_own_machine_without_a_price_has_no_meter(story: Story) -> None:
    story.tell("lease_opened", lease="local-1", box="local", platform="local", root="/", price="")
    assert open_meters(story.home, story.now) == []


def test_what_is_home_or_given_up_is_not_at_risk(story: Story) -> None:
    story.lease()
    story.run()
    story.tell("run_work", "toy", work={"trained_s": 600.0, "training": False})
    assert meter_of(story.home, story.held, story.now).meter.box_loss is not None
    story.tell("waived", "toy", cell="main", by="me")
    assert meter_of(story.home, story.held, story.now).meter.box_loss is None


def test_a_platform_without_facts_is_named_and_its_price_still_counts(story: Story) -> None:
    story.tell("lease_opened", lease="x-1", box="x", platform="gone", root="/", price="2CNY/h")
    (meter,) = open_meters(story.home, story.now + HOUR)
    assert meter.doubt == "no profile 'gone'"
    assert meter.as_dict()["cost"] == {"CNY": "2.0000"}


_STATUS = """
import sys
from leasehold.shells.cli.main import main
main(["status"])
print("yaml" in sys.modules, "leasehold.lifecycle.money.metering" in sys.modules, file=sys.stderr)
"""


def _imports(folder: Path) -> str:
    environment = {"PYTHONPATH": ":".join(sys.path), "LEASEHOLD_HOME": str(folder), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _STATUS], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1]


def test_status_reads_yaml_only_when_a_profile_has_changed(story: Story, tmp_path: Path) -> None:
    assert _imports(tmp_path) == "False False", "nothing is open"
    story.lease()
    assert _imports(tmp_path) == "True True"
    assert _imports(tmp_path) == "False True", "the facts were kept"
    overlay = tmp_path / ".config/leasehold/profiles/autodl.yaml"
    overlay.parent.mkdir(parents=True)
    overlay.write_text("extends: autodl\ntitle: ours\n")
    assert _imports(tmp_path) == "True True"


def test_a_damaged_cache_is_read_again(story: Story, tmp_path: Path) -> None:
    story.lease()
    open_meters(story.home, story.now)
    (tmp_path / "cache/meter-autodl.json").write_text('{"stamp": []')
    assert len(open_meters(story.home, story.now)[0].meter.undated) == 3


# ---------------------------------------------------------------- a person's word, and what is seen


def test_a_told_balance_dates_its_end_and_a_told_price_holds_from_now(story: Story) -> None:
    story.lease()
    tell(story.home, BoxWord("ad", balance="40 cny"), story.now)
    assert meter_of(story.home, story.held, story.now).meter.balance_zero_unix == story.now + 20 * HOUR
    story.now += HOUR
    tell(story.home, BoxWord("ad-1", price="0.1CNY/h", disks=("data disk=150GB",)), story.now)
    assert (story.held.price, str(story.held.disk_gb["data disk"])) == ("0.1CNY/h", "150.00")


@pytest.mark.parametrize(
    "word, code",
    [
        (BoxWord("nobody", balance="1CNY"), "box.unknown"),
        (BoxWord("ad", balance="much"), "box.bad_balance"),
        (BoxWord("ad", disks=("data disk",)), "box.bad_disk"),
        (BoxWord("ad", disks=("floppy=1GB",)), "box.bad_disk"),
        (BoxWord("ad", price="much"), "box.bad_price"),
    ],
)
def test_a_word_that_makes_no_sense_changes_nothing(story: Story, word: BoxWord, code: str) -> None:
    story.lease()
    before = story.held
    with pytest.raises(UserError) as caught:
        tell(story.home, word, story.now)
    assert (caught.value.code, story.held) == (code, before)


def test_only_a_mount_of_its_own_is_measured_and_a_shared_one_never(story: Story) -> None:
    story.lease()
    profile = story.home.shelf().load("autodl")
    disks = [
        {"path": "/root/autodl-tmp", "is_mount": True, "total_bytes": 100 << 30},
        {"path": "/root/autodl-fs", "is_mount": True, "total_bytes": 1 << 50},
        {"path": "/", "is_mount": True, "total_bytes": 1 << 45},
    ]
    note_disks(story.home.ledger, story.held, profile, disks)
    assert {tier: str(size) for tier, size in story.held.disk_gb.items()} == {"data disk": "100.00"}
    events = len(list(story.home.ledger.events()))
    note_disks(story.home.ledger, story.held, profile, [{**disks[0], "is_mount": False}])
    note_disks(story.home.ledger, story.held, profile, disks)
    assert len(list(story.home.ledger.events())) == events


def test_a_parked_box_that_answers_runs_again(story: Story) -> None:
    story.lease()
    note_reached(story.home.ledger, story.held)
    assert not list(story.home.ledger.events(kind="lease_resumed"))
    story.tell("lease_parked", verb="power-off")
    note_reached(story.home.ledger, story.held)
    assert story.held.state == "running"


# ---------------------------------------------------------------- budgets


def test_each_threshold_is_told_once_and_a_leap_tells_the_highest(story: Story) -> None:
    story.lease()
    story.run(budget="20CNY")
    story.now += 4 * HOUR
    assert story.warn() == []
    story.now += HOUR
    assert story.warn() == ["toy: 50 % of the budget is used: 10.00 of 20 CNY"]
    assert story.warn() == []
    story.now += 10 * HOUR
    assert story.warn() == [
        "toy: 150 % of the budget is used: 30.00 of 20 CNY; it continues; to end it: lease stop toy"
    ]
    assert story.warn() == []


def test_idle_and_parked_time_do_not_use_a_runs_budget(story: Story) -> None:
    story.lease()
    story.now += 100 * HOUR  # other work
    story.run(budget="20CNY")
    story.now += 2 * HOUR
    story.tell("run_seen", "toy", state="stopped", seq=9, changed_unix=story.now - HOUR)
    story.now += 5 * HOUR
    story.tell("lease_parked", verb="power-off")
    story.now += 100 * HOUR
    story.tell("lease_resumed")
    story.tell("run_seen", "toy", state="running", seq=10, did="resumed")
    story.now += HOUR
    spent = budget.spending(story.home, story.record, story.now)
    assert spent is not None and spent.spent == 4


def test_a_run_that_moved_to_another_box_brings_its_costs_along(story: Story) -> None:
    story.lease()
    story.run(budget="20CNY")
    story.now += HOUR
    story.tell("lease_closed")
    story.now += HOUR
    story.lease(price="5CNY/h", lease="ad-2")
    story.run(lease="ad-2", budget="20CNY")
    story.now += HOUR
    spent = budget.spending(story.home, story.record, story.now)
    assert spent is not None and spent.spent == 7


def test_the_box_gets_what_it_needs_to_go_on_counting(story: Story) -> None:
    story.lease()
    story.tell("lease_disk", gb={"data disk": "150"}, by="audit")
    story.run(budget="20CNY", at_limit="stop")
    story.now += HOUR
    assert story.for_box() == {
        "limit": "20", "currency": "CNY", "at_limit": "stop", "spent": "2.027500000000", "per_hour": "2.027500000000",
    }  # fmt: skip


@pytest.mark.parametrize("price, why", [("", "has no price"), ("2USD/h", "paid in USD, and no exchange rate is")])
def test_a_budget_that_cannot_be_compared_is_said_and_not_sent(story: Story, price: str, why: str) -> None:
    story.lease(price)
    story.run(budget="20CNY", at_limit="stop")
    assert story.for_box() == {}
    (note,) = story.notes
    assert why in note.text


def test_a_used_up_budget_that_stops_refuses_a_start_but_not_a_look(story: Story) -> None:
    story.lease()
    story.run(budget="20CNY", at_limit="stop")
    story.now += 11 * HOUR
    assert story.for_box(refuse=False)["at_limit"] == "stop"
    with pytest.raises(Refusal) as caught:
        story.for_box()
    assert caught.value.code == "budget.used_up"


def test_what_the_box_told_first_is_not_repeated_and_nonsense_is_an_event(story: Story) -> None:
    story.lease()
    story.run(budget="20CNY")
    minder = Minder(story.home, "toy")
    warned = {"k": "budget_warned", "percent": 50, "budget": "20CNY"}
    assert [minder.knows(warned), minder.knows(warned)] == [False, True]
    assert not minder.knows({**warned, "percent": "all"})
    story.now += 6 * HOUR
    assert story.warn() == []


def test_a_minder_keeps_trained_time_and_drops_what_is_no_duration(story: Story) -> None:
    story.lease()
    story.run()
    minder = Minder(story.home, "toy")
    minder.beat({"work": {"trained_s": "much"}}, story.notes.append)
    minder.beat({"work": {"trained_s": float("nan"), "training": True}}, story.notes.append)
    assert story.record.work_json == ""
    for trained in (5.0, 6.0):
        minder.beat({"work": {"trained_s": trained, "unsaved_s": -3, "training": True}}, story.notes.append)
    minder.beat({"work": {"trained_s": 7.0, "training": False}}, story.notes.append)
    kept = [event.data["work"] for event in story.home.ledger.events(kind="run_work")]
    assert kept == [{"trained_s": 5.0, "training": True}, {"trained_s": 7.0, "training": False}]


def test_a_beat_says_when_a_run_was_last_seen_as_far_as_it_is_proven(story: Story) -> None:
    story.lease()
    story.run()
    work = {"trained_s": 5.0, "training": True}
    before = story.record.seen_unix
    story.now += HOUR
    story.tell("run_work", "toy", work=work)
    assert story.record.seen_unix == before, "without a sign of life nobody was seen"
    story.tell("run_work", "toy", work=work, proven_unix=story.now - 5)
    assert story.record.seen_unix == story.now - 5
    story.tell("run_work", "toy", work=work, proven_unix=story.now - 500)
    assert story.record.seen_unix == story.now - 5, "an older sign of life takes nothing back"
    Minder(story.home, "toy").beat({"work": work}, story.notes.append, 5.0)
    assert "proven_unix" in list(story.home.ledger.events(kind="run_work"))[-1].data


@pytest.mark.parametrize("count, pages", [(2, 5), (50, 2)])
def test_the_handbook_of_many_cells_is_not_written_for_each_of_them(
    story: Story, monkeypatch: pytest.MonkeyPatch, count: int, pages: int
) -> None:
    story.lease()
    story.run()
    written: list[str] = []
    monkeypatch.setattr(
        "leasehold.lifecycle.tell.handbook.refresh", lambda home, record, state: written.append(state["state"])
    )
    names = [f"c{number}" for number in range(count)]
    minder, state = Minder(story.home, "toy"), fold([{"k": "run_opened", "n": 1, "cells": names}])
    minder.stands(state)
    for attempt in (1, 2, 3):
        fold([{"k": "attempt_starting", "n": attempt + 1, "cell": "c0", "attempt": attempt}], into=state)
        minder.stands(state)
    fold([{"k": "run_finished", "n": 9}], into=state)
    minder.stands(state)
    assert (len(written), written[-1]) == (pages, "finished")
