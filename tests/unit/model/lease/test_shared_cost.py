"""What a lease cost is shared out among its runs by when each of them ran."""

from __future__ import annotations

from leasehold.model.lease.lease import Change, Lease
from leasehold.model.lease.shared_cost import shares
from leasehold.model.values.money import Money

HOUR = 3600.0
LEASE = Lease("gpu1-1", "gpu1", "generic-ssh", "", opened_unix=0.0, price="2USD/h")


def shared(ran: dict[str, list[tuple[float, float]]], now_h: float, lease: Lease = LEASE) -> dict[str, str]:
    found = shares(
        lease,
        lambda segment: segment.compute,
        {run: [(a * HOUR, b * HOUR) for a, b in spans] for run, spans in ran.items()},
        now_h * HOUR,
    )
    return {run: money.spelled for run, money in found.items()}


def test_runs_in_turn_pay_their_own_time_and_idle_time_is_nobodys() -> None:
    assert shared({"a": [(0, 1)], "b": [(2, 5)]}, now_h=10) == {"a": "2.00 USD", "b": "6.00 USD"}


def test_two_at_once_pay_half_each() -> None:
    assert shared({"a": [(0, 4)], "b": [(2, 4)]}, now_h=4) == {"a": "6.00 USD", "b": "2.00 USD"}


def test_a_run_that_was_resumed_pays_for_both_its_stretches() -> None:
    assert shared({"a": [(0, 1), (3, 4)]}, now_h=5) == {"a": "4.00 USD"}


def test_a_change_of_price_and_a_parked_stretch_count() -> None:
    changed = (
        Change(HOUR, "price", "4USD/h"),
        Change(2 * HOUR, "state", "parked"),
        Change(3 * HOUR, "state", "running"),
    )
    lease = Lease(
        "gpu1-1", "gpu1", "generic-ssh", "", 0.0, "4USD/h", changes=(Change(0.0, "price", "2USD/h"), *changed)
    )
    assert shared({"a": [(0, 4)]}, now_h=4, lease=lease) == {"a": "10.00 USD"}


def test_nothing_is_due_before_the_lease_opened_or_after_it_closed() -> None:
    lease = Lease("gpu1-1", "gpu1", "generic-ssh", "", HOUR, "2USD/h", closed_unix=3 * HOUR)
    assert shared({"a": [(0, 9)]}, now_h=9, lease=lease) == {"a": "4.00 USD"}


def test_the_shares_of_many_runs_never_exceed_the_lease() -> None:
    ran = {f"r{n}": [(n / 10, n / 7 + 1)] for n in range(50)}
    found = shares(
        LEASE,
        lambda segment: segment.compute,
        {r: [(a * HOUR, b * HOUR) for a, b in s] for r, s in ran.items()},
        HOUR * 8,
    )
    total = sum(found.values(), Money())
    assert float(dict(total.amounts)["USD"]) <= 16.0 + 1e-6
    assert float(dict(total.amounts)["USD"]) > 15.0, "somebody ran nearly all the time"
