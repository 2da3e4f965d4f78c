"""What the stages ask: runs by any word, one open lease a box, an approval used once, an act that is pending."""

from __future__ import annotations

import threading

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.model.run.receipt import receipt_from_dict

from .conftest import approval
from .test_projection import RECEIPT

# ---------------------------------------------------------------- finding runs


def test_a_run_is_found_by_its_id_its_beginning_or_its_jobs_name(ledger, plan_run):
    plan_run("toy-aaaa1", name="toy")
    plan_run("big-bbbb1", name="big model")
    assert books.find_run(ledger, "toy-aaaa1").run == "toy-aaaa1"
    assert books.find_run(ledger, "toy-a").run == "toy-aaaa1"
    assert books.find_run(ledger, "big model").run == "big-bbbb1"


def test_a_jobs_name_means_its_newest_run(ledger, plan_run):
    for run in ("toy-1111", "toy-3333", "toy-2222"):
        plan_run(run)
    assert books.find_run(ledger, "toy").run == "toy-2222"


def test_an_exact_id_wins_over_the_beginning_of_another(ledger, plan_run):
    plan_run("toy-1", name="x")
    plan_run("toy-1-2", name="x")
    assert books.find_run(ledger, "toy-1").run == "toy-1"


def test_a_beginning_that_fits_several_is_refused_with_their_names(ledger, plan_run):
    plan_run("toy-aaaa", name="x")
    plan_run("toy-aabb", name="x")
    with pytest.raises(UserError) as caught:
        books.find_run(ledger, "toy-aa")
    assert caught.value.code == "run.ambiguous"
    assert "toy-aaaa" in caught.value.message and "toy-aabb" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("word", ["nope", "%", "_oy-1", "toy_1", "toy-1x", "\\", "'; DROP TABLE runs; --"])
def test_an_unknown_word_is_refused_and_wildcards_are_only_characters(ledger, plan_run, word):
    plan_run("toy-1")
    with pytest.raises(UserError) as caught:
        books.find_run(ledger, word)
    assert caught.value.code == "run.unknown"
    assert caught.value.hint


def test_an_empty_word_never_means_the_only_run(ledger, plan_run):
    """`lease stop "$RUN"` with RUN unset must not stop whatever is there."""
    plan_run("toy-1")
    with pytest.raises(UserError) as caught:
        books.find_run(ledger, "")
    assert caught.value.code == "run.unknown"


def test_runs_come_newest_first_and_by_lease(ledger, plan_run):
    plan_run("a-1", lease="box-1")
    plan_run("b-1", lease="box-2")
    plan_run("c-1", lease="box-1")
    assert [record.run for record in books.runs(ledger)] == ["c-1", "b-1", "a-1"]
    assert [record.run for record in books.runs(ledger, lease="box-1")] == ["c-1", "a-1"]


def test_a_receipt_is_read_back_as_it_was_written(ledger, plan_run):
    plan_run("toy-1")
    assert books.receipt_of(books.find_run(ledger, "toy-1")) is None
    ledger.append("receipt_written", run="toy-1", receipt=RECEIPT, export="/e")
    receipt = books.receipt_of(books.find_run(ledger, "toy-1"))
    assert receipt == receipt_from_dict(RECEIPT)
    assert receipt.as_dict() == RECEIPT


# ---------------------------------------------------------------- leases


def test_a_box_has_one_open_lease(ledger):
    first = books.open_lease(ledger, "ssh:gpu", "generic-ssh", "", "1USD/h")
    assert books.open_lease(ledger, "ssh:gpu", "generic-ssh", "", "1USD/h") == first
    assert [event.kind for event in ledger.events()] == ["lease_opened"]
    assert (first.id, first.open, first.price) == ("ssh-gpu-1", True, "1USD/h")


def test_another_root_on_the_same_box_is_another_lease(ledger):
    one = books.open_lease(ledger, "ssh:gpu", "generic-ssh", "/a", "")
    other = books.open_lease(ledger, "ssh:gpu", "generic-ssh", "/b", "")
    assert one.id != other.id


def test_after_the_end_a_new_lease_with_a_new_name_begins(ledger):
    first = books.open_lease(ledger, "ssh:gpu", "generic-ssh", "", "")
    ledger.append("lease_closed", lease=first.id)
    second = books.open_lease(ledger, "ssh:gpu", "generic-ssh", "", "")
    assert second.id != first.id
    assert [lease.id for lease in books.leases(ledger, only_open=True)] == [second.id]
    assert {lease.id for lease in books.leases(ledger)} == {first.id, second.id}


def test_a_new_price_counts_and_no_price_keeps_the_old_one(ledger):
    books.open_lease(ledger, "b", "local", "/", "1USD/h")
    assert books.open_lease(ledger, "b", "local", "/", "").price == "1USD/h"
    assert books.open_lease(ledger, "b", "local", "/", "2USD/h").price == "2USD/h"


@pytest.mark.parametrize("box, slug", [("ssh:root@1.2.3.4:22", "ssh-root-1-2-3-4-22-1"), ("::", "box-1")])
def test_a_leases_name_is_plain(ledger, box, slug):
    assert books.open_lease(ledger, box, "generic-ssh", "", "").id == slug


def test_two_commands_that_open_a_lease_at_once_get_the_same_one(ledger):
    found, start = [], threading.Barrier(4)

    def open_it():
        own = Ledger(ledger.path)
        start.wait()
        found.append(books.open_lease(own, "ssh:gpu", "generic-ssh", "", "").id)
        own.close()

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["ssh-gpu-1"] * 4
    assert len(books.leases(ledger)) == 1


def test_an_unknown_lease_is_refused(ledger):
    with pytest.raises(UserError) as caught:
        books.find_lease(ledger, "nope")
    assert caught.value.code == "lease.unknown"


# ---------------------------------------------------------------- approvals and intents


def test_an_approval_is_consumed_by_its_intent(ledger):
    books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    with pytest.raises(Refusal) as caught:
        books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    assert caught.value.code == "approval.used"
    assert len(list(ledger.events(kind="intent_recorded"))) == 1
    books.record_intent(ledger, "box-1", "terminate", approval("n2"))


def test_of_two_commands_with_the_same_approval_one_wins(ledger):
    outcomes, start = [], threading.Barrier(4)

    def use_it():
        own = Ledger(ledger.path)
        start.wait()
        try:
            books.record_intent(own, "box-1", "terminate", approval("n1"))
            outcomes.append("won")
        except Refusal as refused:
            outcomes.append(refused.code)
        own.close()

    threads = [threading.Thread(target=use_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["approval.used"] * 3 + ["won"]


def test_an_intent_says_who_what_and_on_which_evidence(ledger):
    books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    (event,) = ledger.events(kind="intent_recorded")
    said = {key: event.data[key] for key in ("verb", "strength", "by", "evidence")}
    assert said == {"verb": "terminate", "strength": "typed", "by": "me", "evidence": "e" * 64}


def test_nothing_is_pending_at_first(ledger):
    assert books.pending_intent(ledger, "box-1") is None


@pytest.mark.parametrize("other", ["verb_unknown", "run_seen", "note"])
def test_an_intent_is_pending_until_its_end_is_known(ledger, other):
    books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    ledger.append(other, lease="box-1", run="r", verb="terminate", state="unknown")
    assert books.pending_intent(ledger, "box-1")["verb"] == "terminate"
    assert books.pending_intent(ledger, "box-2") is None


@pytest.mark.parametrize("end", ["verb_done", "verb_refused", "verb_asked", "lease_closed", "lease_reopened"])
def test_an_ended_intent_is_no_longer_pending(ledger, end):
    books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    ledger.append(end, lease="box-1", verb="terminate")
    assert books.pending_intent(ledger, "box-1") is None
    books.record_intent(ledger, "box-1", "terminate", approval("n2"))
    assert books.pending_intent(ledger, "box-1") is not None


def test_the_newest_intent_is_the_pending_one(ledger):
    books.record_intent(ledger, "box-1", "park", approval("n1", verb="park"))
    books.record_intent(ledger, "box-1", "terminate", approval("n2"))
    assert books.pending_intent(ledger, "box-1")["verb"] == "terminate"


def test_the_end_of_another_lease_changes_nothing(ledger):
    books.record_intent(ledger, "box-1", "terminate", approval("n1"))
    ledger.append("verb_done", lease="box-2", verb="terminate")
    assert books.pending_intent(ledger, "box-1") is not None


def test_a_list_says_of_a_run_what_its_record_says(ledger, plan_run):
    for run in ("toy-1", "toy-2"):
        plan_run(run)
    ledger.append("run_seen", lease="box-1", run="toy-1", state="finished", seq=6)
    ledger.append("waived", lease="box-1", run="toy-2", cell="main")
    ledger.append("receipt_written", lease="box-1", run="toy-1", receipt={"cells": ["main"]}, export="/home/me/toy-1")
    assert books.run_lines(ledger) == [record.line() for record in books.runs(ledger)]
    lines = {line.run: line for line in books.run_lines(ledger)}
    assert (lines["toy-1"].receipt, lines["toy-1"].home_since, lines["toy-1"].state) == (
        True,
        "/home/me/toy-1",
        "finished",
    )
    assert (lines["toy-2"].receipt, lines["toy-2"].waived) == (False, ("main",))


def test_a_run_is_called_by_its_whole_name_alone(ledger, plan_run):
    plan_run("toy-1")
    assert books.run_called(ledger, "toy-1").run == "toy-1"
    assert books.run_called(ledger, "toy") is None
