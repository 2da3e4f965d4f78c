"""When something will be full. Runs under PyPy too."""

from __future__ import annotations

from leasehold.caretaker.monitor.trends import Trend, slope


def grown(amounts: "list[float]", every_s: float = 30.0) -> Trend:
    trend = Trend()
    for number, amount in enumerate(amounts):
        trend.add(number * every_s, amount)
    return trend


def test_steady_growth_tells_when_the_limit_is_reached() -> None:
    left_s = grown([100.0 + number * 3 for number in range(40)]).left_s(217.0, 817.0)
    assert left_s is not None and abs(left_s - 6000) < 1


def test_what_does_not_grow_is_never_full() -> None:
    assert grown([500.0] * 40).left_s(500.0, 501.0) is None
    assert grown([500.0 - number for number in range(40)]).left_s(460.0, 501.0) is None


def test_a_checkpoint_that_comes_and_goes_is_no_growth() -> None:
    wave = [100.0 + (number % 20) * 5 for number in range(100)]  # ten minutes up, then pruned
    left_s = grown(wave).left_s(wave[-1], 400.0)
    assert left_s is None or left_s > 3600


def test_five_minutes_must_have_passed() -> None:
    assert grown([0.0, 50.0, 99.0]).left_s(99.0, 100.0) is None


def test_readings_closer_than_half_a_minute_do_not_count_twice() -> None:
    trend = Trend()
    for second in range(0, 700, 5):
        trend.add(float(second), float(second))
    left_s = trend.left_s(700.0, 1700.0)
    assert left_s is not None and abs(left_s - 1000) < 1


def test_a_clock_that_goes_back_begins_a_new_history() -> None:
    trend = grown([float(number) for number in range(40)])
    trend.add(0.0, 5.0)
    assert trend.left_s(5.0, 6.0) is None


def test_a_slope_of_one_point_is_flat() -> None:
    assert slope([(1.0, 2.0)]) == 0.0
