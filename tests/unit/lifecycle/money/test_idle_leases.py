"""What every command says first: only of boxes that bill for nothing, and for how long they really have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.ledger.store import Ledger
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money.idle_leases import nags
from leasehold.lifecycle.tell.notify import wishes
from leasehold.model.lease.lease import Lease

HOUR = 3600.0


class Story:
    """A home's ledger, told event by event at times of our choosing."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.now = 1_800_000_000.0
        self.home.__dict__["ledger"] = Ledger(folder / "ledger.sqlite", clock=lambda: self.now)

    def tell(self, kind: str, run: str = "toy", lease: str = "box-1", **data: Any) -> None:
        self.home.ledger.append(kind, lease=lease, run=run, **data)

    def lease(self, box: str = "ssh:gpu1", price: str = "1.98USD/h", lease: str = "box-1") -> None:
        self.tell("lease_opened", run="", lease=lease, box=box, platform="generic-ssh", root="", price=price)

    def run(self, state: str = "finished", run: str = "toy", lease: str = "box-1", **data: Any) -> None:
        self.tell("run_planned", run, lease, plan={"cells": ["main"]}, name=run, box="ssh:gpu1", project="", results="")
        if state != "planned":
            self.tell("run_seen", run, lease, state=state, seq=5, **data)

    def said(self) -> list[str]:
        return [str(nag) for nag in nags(self.home, self.now)]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path)
    yield told
    told.home.ledger.close()


def test_a_home_without_a_ledger_has_nothing_to_say_and_gets_none(tmp_path: Path) -> None:
    assert nags(Home(tmp_path / "nowhere"), 0) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_finished_run_on_a_metered_box_is_nagged_about(story: Story) -> None:
    story.lease()
    story.run()
    story.now += 2 * HOUR
    assert story.said() == [
        "toy finished 2 h ago and ssh:gpu1 costs 1.98USD/h, 3.96 USD since then, 3.96 USD so far. Next: lease pull toy"
    ]


def test_without_a_price_the_box_may_still_bill(story: Story) -> None:
    story.lease(price="")
    story.run()
    assert story.said() == ["toy just finished and ssh:gpu1 may still bill (cost unknown). Next: lease pull toy"]


def test_this_machine_does_not_bill_unless_it_has_a_price(story: Story) -> None:
    story.lease(box="local", price="")
    story.run()
    assert story.said() == []
    story.tell("lease_priced", price="0.30USD/h")
    assert len(story.said()) == 1


@pytest.mark.parametrize("state", ["running", "stopping", "unknown"])
def test_a_box_on_which_something_may_run_is_left_alone(story: Story, state: str) -> None:
    story.lease()
    story.run("finished", "first")
    story.run(state, "second")
    assert story.said() == []


def test_a_run_that_a_gate_refused_does_not_keep_the_box_busy(story: Story) -> None:
    story.lease()
    story.run("finished", "first")
    story.run("planned", "refused")
    assert [line.split()[0] for line in story.said()] == ["first"]


def test_the_count_begins_when_the_box_says_it_ended_and_never_restarts(story: Story) -> None:
    story.lease()
    story.now += 9 * HOUR
    ended = story.now - 8 * HOUR
    story.run(changed_unix=ended)  # seen for the first time in the morning
    assert "finished 8 h ago" in story.said()[0]
    story.now += HOUR
    story.tell("run_seen", state="finished", seq=5, changed_unix=ended)
    story.tell("run_seen", state="finished", seq=5)
    assert "finished 9 h ago" in story.said()[0]


def test_a_run_that_was_resumed_counts_from_its_last_end(story: Story) -> None:
    story.lease()
    story.run("failed")
    story.now += 5 * HOUR
    story.tell("run_seen", state="finished", seq=9)
    story.now += HOUR
    assert "finished 1 h ago" in story.said()[0]


def test_a_box_whose_clock_is_wrong_does_not_make_it_older_than_the_run(story: Story) -> None:
    story.lease()
    story.run(changed_unix=17.0)
    story.now += HOUR
    assert "finished 1 h ago" in story.said()[0]


def test_the_next_command_follows_what_is_home_and_what_was_asked(story: Story) -> None:
    story.lease()
    story.run()
    assert story.said()[0].endswith("Next: lease pull toy")
    story.tell("receipt_written", receipt={"run": "toy", "cells": ["main"]}, export="/x")
    assert story.said()[0].endswith("Next: lease down toy")
    story.tell("verb_asked", run="", verb="stop-by-hand")
    assert story.said()[0].endswith("Next: lease down toy --stopped, once the console shows it")
    story.tell("lease_closed", run="", by="me")
    assert story.said() == []


def test_in_the_first_minute_there_is_no_idle_cost_yet(story: Story) -> None:
    story.lease()
    story.run()
    story.now += 59
    assert story.said() == ["toy just finished and ssh:gpu1 costs 1.98USD/h, 0.03 USD so far. Next: lease pull toy"]


def test_a_run_that_failed_is_to_be_read_and_resumed_not_given_up(story: Story) -> None:
    story.lease()
    story.run("failed")
    (nag,) = nags(story.home, story.now)
    assert str(nag).endswith("Next: lease doctor toy says why; the same lease run resumes it")
    assert nag.answered_by("run", "ssh:gpu1") and nag.answered_by("logs", "toy") and "down" not in str(nag)
    assert not nag.answered_by("run", "local") and not nag.answered_by("logs", "other")
    story.tell("waived", cell="main")
    assert story.said()[0].endswith("Next: lease down toy")


def test_a_run_that_was_stopped_is_resumed_or_given_up(story: Story) -> None:
    story.lease()
    story.run("stopped")
    assert story.said()[0].endswith("Next: the same lease run resumes it; lease waive toy gives it up")


# ---------------------------------------------------------------- a lease on which nothing was started


def test_a_lease_on_which_a_gate_refused_is_named_with_its_cost_so_far(story: Story) -> None:
    story.lease()
    story.run("planned")
    story.tell("gate_judged", gate="audit", outcome="refused", skipped=False)
    story.now += 2 * HOUR
    assert story.said() == [
        "ssh:gpu1 costs 1.98USD/h, 3.96 USD so far, and no run is live on it: the audit gate refused toy. "
        "Next: lease run once that is mended, or lease down box-1"
    ]
    (nag,) = nags(story.home, story.now)
    assert nag.answered_by("down", "box-1") and not nag.answered_by("down", "") and not nag.answered_by("run", "")


def test_a_lease_that_never_got_as_far_as_a_gate_is_named_too(story: Story) -> None:
    story.lease()
    assert "no run is live on it: none was started" in story.said()[0]
    story.run("planned")
    story.tell("gate_judged", gate="smoke", outcome="refused", skipped=True)
    assert "no run is live on it: toy was planned and not started" in story.said()[0]


def test_a_platform_that_bills_without_a_known_price_has_an_unknown_cost(story: Story) -> None:
    story.tell("lease_opened", run="", box="gpu1", platform="autodl", root="", price="")
    assert story.said()[0].startswith("gpu1 bills, cost unknown (lease box tell gpu1 --price …), and no run is live")


@pytest.mark.parametrize("box, platform", [("local", "local"), ("ssh:lab", "generic-ssh"), ("hpc", "slurm")])
def test_a_box_that_nobody_is_known_to_bill_is_not_idle(story: Story, box: str, platform: str) -> None:
    story.tell("lease_opened", run="", box=box, platform=platform, root="", price="")
    assert story.said() == []


def test_a_lease_is_not_idle_while_parked_closed_or_possibly_running(story: Story) -> None:
    story.lease()
    story.run("running")
    assert story.said() == []
    story.lease(lease="box-2")
    story.tell("lease_parked", run="", lease="box-2", verb="stop")
    assert story.said() == []
    story.tell("lease_closed", run="", lease="box-2", by="me")
    assert story.said() == []


def test_only_metered_boxes_get_the_channels(story: Story) -> None:
    (story.home.path / "notify.json").write_text('{"channels": [{"kind": "ntfy", "url": "https://x/y"}]}')
    assert wishes(story.home, Lease("a", "local", "local", "", 0.0)) == {}
    assert wishes(story.home, Lease("a", "ssh:gpu1", "generic-ssh", "", 0.0))["box"] == "ssh:gpu1"
    assert wishes(story.home, Lease("a", "local", "local", "", 0.0, "1USD/h"))["price"] == "1USD/h"


def park(story: Story, kind: str = "lease_parked", **data: Any) -> None:
    story.tell("lease_opened", run="", box="gpu1", platform="autodl", root="", price="1.98CNY/h")
    story.run()
    story.tell(kind, run="", verb="power-off", **data)


def test_a_silent_box_that_was_asked_to_stop_may_still_bill(story: Story) -> None:
    park(story, "verb_unknown", state="unknown")
    story.now += 8 * HOUR
    (said,) = story.said()
    assert said == (
        "toy finished 8 h ago and gpu1 may still bill (1.98CNY/h, 15.84 CNY so far): it was asked to stop"
        " and does not answer. Next: lease down toy --stopped, once the console shows it"
    )
    story.now += 12 * 24 * HOUR
    clock, _ = story.said()
    assert clock.startswith("gpu1 is perhaps off; in 2 d 16 h (20")
    story.tell("lease_resumed", run="", seen="it answered")
    (said,) = story.said()
    assert "gpu1 costs 1.98CNY/h" in said


def test_a_parked_box_is_silent_until_near_its_release_and_says_what_goes(story: Story) -> None:
    park(story)
    story.now += 24 * HOUR
    assert story.said() == []
    story.now += 11.5 * 24 * HOUR
    (said,) = story.said()
    assert said.startswith("gpu1 is parked; in 2 d 12 h (20")
    assert "the instance is released" in said and "system disk, data disk with it" in said
    assert said.endswith("Now: power it on for a moment before that day, or bring everything home")


def test_a_release_that_is_overdue_is_still_said(story: Story) -> None:
    park(story)
    story.now += 16 * 24 * HOUR
    assert "gpu1 is parked; since 20" in story.said()[0]


def test_a_balance_that_runs_out_is_said_while_there_is_time(story: Story) -> None:
    story.tell("lease_opened", run="", box="gpu1", platform="autodl", root="", price="2CNY/h")
    story.tell("lease_balance", run="", amount="300CNY")
    story.run("running")
    assert story.said() == []
    story.now += 100 * HOUR
    assert "gpu1 is running; in 2 d 2 h" in story.said()[0]


def test_a_box_that_was_parked_and_is_on_again_is_nagged_about_anew(story: Story) -> None:
    story.lease()
    story.run()
    story.tell("receipt_written", receipt={"cells": ["main"]}, export="/x")
    story.tell("verb_asked", run="", verb="shut-down")
    assert "--stopped" in story.said()[0]
    story.tell("lease_parked", run="", verb="shut-down")
    story.tell("lease_resumed", run="")
    assert story.said()[0].endswith("Next: lease down toy")


def test_a_run_whose_cells_are_all_on_other_boxes_has_nothing_to_pull(story: Story) -> None:
    story.lease()
    story.run()
    story.tell("run_planned", plan={"cells": []}, name="toy", box="ssh:gpu1", project="", results="")
    assert story.said()[0].endswith("Next: lease down toy")
