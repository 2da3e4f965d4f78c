"""Checkpoints leave the box while it trains: whole, newest first, pruned, and again after any process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.kit.refuge.epochs import Claim, claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import pointer_key
from tests.real.refuge.bed import Bed
from tests.support.front import front


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with front(tmp_path / "me") as person:
        yield Bed(person)


def test_new_checkpoints_are_copied_while_training_goes_on(bed: Bed) -> None:
    bed.launch()
    copied = bed.event("refuge_copied", 3)
    assert copied["place"] == str(bed.tier) and copied["step"] >= 2
    kept = bed.newest()
    assert kept is not None and kept.state.step is not None and kept.state.step >= copied["step"]
    assert bed.events("refuge_opened")[0]["places"] == [str(bed.tier)]
    bed.event("refuge_pruned")
    bed.stop()
    last = bed.newest()
    assert last is not None and bed.whole(last)
    assert last.state.step == max(int(one.name[5:11]) for one in (bed.folder / "out/main/ckpt").iterdir())
    states = bed.tier / f"leasehold/refuge/{bed.run}/cells/main/states"
    assert len([one for one in states.iterdir() if one.suffix == ".json"]) == 2


def worker_of(bed: Bed) -> int:
    """Return the pid of the live worker."""

    def look() -> int:
        try:
            words = (bed.folder / "refuge/lock").read_text().split()
            pid = int(words[0]) if words else 0
            os.kill(pid, 0)
        except (OSError, ValueError):
            return 0
        return pid

    return int(bed.until(look))


def test_a_killed_worker_is_started_again_and_nothing_torn_is_seen(bed: Bed) -> None:
    bed.launch(pad=2_000_000)
    bed.event("refuge_copied")
    for round_ in range(1, 6):
        os.kill(worker_of(bed), signal.SIGKILL)
        kept = bed.newest()
        assert kept is not None and bed.whole(kept)
        count = len(bed.events("refuge_copied"))
        bed.event("refuge_copied", count + 1)
        assert round_
    bed.stop()
    assert not (bed.tier / ".leasehold-parts").exists() or not list((bed.tier / ".leasehold-parts").iterdir())


def test_a_killed_caretaker_leaves_the_worker_at_work(bed: Bed) -> None:
    bed.launch()
    bed.event("refuge_copied")
    worker = worker_of(bed)
    caretaker = int((bed.folder / "caretaker.lock").read_text().split()[0])
    os.kill(caretaker, signal.SIGKILL)
    bed.event("caretaker_started")
    count = len(bed.events("refuge_copied"))
    bed.event("refuge_copied", count + 2)
    assert worker_of(bed) == worker
    uids = [event["uid"] for event in bed.events("refuge_copied")]
    assert len(uids) == len(set(uids)), "nothing is journaled twice"
    bed.stop()


def test_a_run_that_was_given_away_stops_and_publishes_nothing(bed: Bed) -> None:
    bed.launch()
    bed.event("refuge_copied")
    place = FolderPlace(str(bed.tier))
    assert claim(place, bed.run, Claim(2, "theirs", home="office", box="gpu2"))
    fenced = bed.event("refuge_fenced")
    assert (fenced["epoch"], fenced["ours"], fenced["box"]) == (2, 1, "gpu2")
    stopped = bed.event("run_stopped")
    assert stopped["cause"] == "superseded" and "gpu2" in stopped["reason"]
    before = place.read_back(pointer_key(bed.run, "main", 1))
    again = bed.me.lease("run", "--detach")
    bed.until(lambda: len(bed.events("run_stopped")) == 2 or again.code != 0)
    assert len(bed.events("attempt_started")) == 1, "a fenced run is not started again"
    assert place.read_back(pointer_key(bed.run, "main", 1)) == before


def test_a_detached_tier_is_an_alarm_and_is_used_again_when_back(bed: Bed) -> None:
    bed.launch(pad=2_000_000)
    bed.event("refuge_copied")
    bed.tier.rename(bed.tier.parent / "detached")
    failed = bed.event("refuge_failed")
    assert failed["class"] == "unreachable" and not bed.tier.exists()
    step = bed.events("refuge_copied")[-1]["step"]
    (bed.tier.parent / "detached").rename(bed.tier)
    count = len(bed.events("refuge_copied"))
    assert bed.event("refuge_copied", count + 1)["step"] > step
    assert len(bed.events("refuge_failed")) == 1, "said once"
    assert len(bed.events("attempt_started")) == 1
    bed.stop()


def test_the_status_says_what_has_left_the_box(bed: Bed) -> None:
    bed.launch(every="1s")
    copied = bed.event("refuge_copied")
    told = bed.until(lambda: next((x for x in (bed.me.lease("status", "--refresh").out,) if "off the box" in x), ""))
    assert f"newest state off the box: step {copied['step']}" in told or "newest state off the box: step" in told
    assert "at risk" in told and str(bed.tier) in told
    bed.stop()


def test_a_box_that_goes_has_its_newest_checkpoint_copied_at_once(bed: Bed) -> None:
    bed.launch(every="1h")
    first = bed.event("refuge_copied")["step"]
    caretaker = int((bed.folder / "caretaker.lock").read_text().split()[0])
    os.kill(caretaker, signal.SIGTERM)
    bed.event("preempt_noticed")
    assert bed.event("refuge_copied", 2)["step"] > first, "an hour was not waited for"
    bed.event("attempt_ended")
    bed.until(lambda: _newest_step(bed) == _last_saved(bed))
    bed.stop()


def _newest_step(bed: Bed) -> int | None:
    kept = bed.newest()
    return kept.state.step if kept else None


def _last_saved(bed: Bed) -> int:
    return max(int(one.name[5:11]) for one in (bed.folder / "out/main/ckpt").glob("step-*.json"))
