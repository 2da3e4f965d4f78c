"""A budget on a real run: the box itself warns, and stops the run gracefully where the job says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full

# Trains until it is asked to leave, and then saves; started again, it goes on from there and is soon done.
TRAIN = """
import json, os, signal, sys, time
out = os.environ["LEASE_OUT"]
def save(*_):
    with open(os.path.join(out, "last.json"), "w") as file:
        json.dump({"saved": True}, file)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("step 1/2 loss 0.5", flush=True)
if not os.path.exists(os.path.join(out, "last.json")):
    time.sleep(120)
with open(os.path.join(out, "result.json"), "w") as file:
    json.dump({"loss": 0.5}, file)
"""
PRICE = "36000USD/h"  # ten a second
LIMIT = "100USD"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose training does not end by itself."""
    with front(tmp_path) as person:
        person.write("train.py", TRAIN)
        yield person


def journal(me: Front) -> list[dict[str, Any]]:
    (run,) = me.runs_on_box()
    return [json.loads(line) for line in (me.box_root / "active" / run / "journal.jsonl").read_text().splitlines()]


def test_a_used_up_budget_stops_the_run_after_it_saved_and_leaves_the_box(
    me: Front, heard: tuple[str, list[dict[str, Any]]]
) -> None:
    address, seen = heard
    me.job(checkpoint={"path": "last.json"}, expect="1h", budget={"limit": LIMIT, "at_limit": "stop"})
    assert me.lease("notify", "add", "webhook", address).code == 0
    done = me.lease("run", "--price", PRICE, *NO_SMOKE)
    assert done.code == 6, done.said
    assert "its job says" in done.said and "stopped: its budget is used up" in done.said

    kinds = [event["k"] for event in journal(me)]
    assert kinds.index("budget_reached") < kinds.index("stop_requested") < kinds.index("run_stopped")
    assert kinds.count("budget_reached") == 1
    (saved,) = me.box_root.glob("active/*/out/main/last.json")
    assert json.loads(saved.read_text()) == {"saved": True}
    assert eventually(lambda: any(message["event"] == "budget_reached" for message in seen)), "the box sends it aside"
    told = [event["percent"] for event in me.events("budget_warned")]
    assert told == sorted(set(told)) and told[-1] == 100, "each threshold once"

    (lease,) = json.loads(me.lease("status", "--json").out)["leases"]
    assert (lease["state"], lease["platform"]) == ("running", "local")
    assert float(lease["cost"]["USD"]) >= 100
    assert me.events("lease_closed") == []

    again = me.lease("run", "--price", PRICE, *NO_SMOKE)
    assert again.code == 3 and "error[budget.used_up]" in again.said

    me.job(checkpoint={"path": "last.json"}, expect="1h", budget={"limit": "1000000USD", "at_limit": "stop"})
    last = me.lease("run", "--price", PRICE, *NO_SMOKE)
    assert last.code == 0, last.said
    assert [event["k"] for event in journal(me)].count("resumed") == 1


def test_a_plain_budget_warns_and_the_run_goes_on(me: Front) -> None:
    me.write("train.py", TRAIN.replace("time.sleep(120)", "time.sleep(4)"))
    me.job(budget="0.001USD")
    done = me.lease("run", "--price", PRICE, *NO_SMOKE)
    assert done.code == 0, done.said
    assert "it continues" in done.said
    assert [event["percent"] for event in me.events("budget_warned")] == [100]


def test_a_budget_in_another_currency_is_said_and_never_compared(me: Front) -> None:
    me.write("train.py", TRAIN.replace("time.sleep(120)", "pass"))
    me.job(budget={"limit": "0.001CNY", "at_limit": "stop"})
    done = me.lease("run", "--price", PRICE, *NO_SMOKE)
    assert done.code == 0, done.said
    assert "is paid in USD, and no exchange rate is invented" in done.said
    assert "budget_reached" not in [event["k"] for event in journal(me)]
