"""Many calls side by side: never too many at once, never behind a silent one."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from leasehold.lifecycle.box.fan_out import Call, Limits, fan_out


class Crowd:
    """Counts who is inside; each call stays until another has come or nobody can."""

    def __init__(self, most: int) -> None:
        self.inside: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._full = threading.Barrier(most)

    def visit(self, gateway: str) -> str:
        with self._lock:
            self.inside[gateway] += 1
            self.inside["all"] += 1
            for name in (gateway, "all"):
                self.peak[name] = max(self.peak[name], self.inside[name])
        self._full.wait(timeout=30)  # passes only when exactly so many are inside together
        with self._lock:
            self.inside[gateway] -= 1
            self.inside["all"] -= 1
        return gateway


def names(turns) -> list[str]:
    return [name for turn in turns for name, _ in turn.heard]


def test_everyone_is_asked_once_and_answers():
    calls = [Call(f"box{n}", lambda: "", lambda n=n: n * n) for n in range(50)]
    heard = [pair for turn in fan_out(calls) for pair in turn.heard]
    assert sorted(heard) == sorted((f"box{n}", n * n) for n in range(50))


def test_nobody_to_ask_is_no_turn():
    assert list(fan_out([])) == []


def test_no_more_than_the_limit_are_asked_at_once():
    crowd = Crowd(4)
    calls = [Call(f"box{n}", lambda n=n: f"gw{n}", lambda n=n: crowd.visit(f"gw{n}")) for n in range(16)]
    assert len(names(fan_out(calls, Limits(at_once=4, settled_s=60)))) == 16
    assert crowd.peak["all"] == 4


def test_a_gateway_is_asked_gently_while_others_go_on():
    crowd = Crowd(3)
    calls = [Call(f"box{n}", lambda: "gw", lambda: crowd.visit("gw")) for n in range(9)]
    calls += [Call("alone", lambda: "direct", lambda: "here")]
    limits = Limits(at_once=8, per_gateway=3, settled_s=60, jitter_s=0.01)
    assert len(names(fan_out(calls, limits))) == 10
    assert crowd.peak["gw"] == 3


def test_a_silent_one_gives_its_room_away():
    others = threading.Barrier(3)

    def silent() -> str:
        others.wait(timeout=30)
        return "late"

    def quick() -> str:
        others.wait(timeout=30)
        return "done"

    calls = [Call("silent", lambda: "a", silent), Call("one", lambda: "b", quick), Call("two", lambda: "c", quick)]
    limits = Limits(at_once=1, settled_s=0.02, tick_s=0.01)
    assert sorted(names(fan_out(calls, limits))) == ["one", "silent", "two"]


def test_turns_say_who_is_waited_for_and_for_how_long():
    release = threading.Event()
    calls = [Call(name, lambda: "", lambda: release.wait(30)) for name in ("a", "b", "c")]
    for turn in fan_out(calls, Limits(at_once=2, settled_s=60, tick_s=0.01)):
        if len(turn.waiting) == 2 and not release.is_set():
            assert all(asked_s >= 0 for _, asked_s in turn.waiting)
            release.set()
    assert release.is_set()


def test_a_defect_in_a_thread_is_not_swallowed():
    def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(fan_out([Call("box", lambda: "", broken)]))
