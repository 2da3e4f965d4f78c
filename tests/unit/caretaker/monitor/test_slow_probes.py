"""Questions asked from children that answer, cost much, die or hang. Runs under PyPy too."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, List

from leasehold.caretaker.monitor.slow_probes import Asking, Heard
from leasehold.kit.run.processes import look


def nothing() -> None:
    pass


def heard(asking: Asking, now_s: float) -> List[Heard]:
    """Turn at one moment of the patrol's clock until the child has answered."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answers = asking.step(now_s, nothing)
        if answers:
            return answers
        time.sleep(0.005)
    return []


def settle(asking: Asking, now_s: float) -> None:
    """Turn until the child's end was seen."""
    until = time.monotonic() + 60
    while asking._child is not None and time.monotonic() < until:
        assert asking.step(now_s, nothing) == []
        time.sleep(0.005)


def begins(asking: Asking, name: str, now_s: float) -> None:
    """Turn until the child is at this question."""
    until = time.monotonic() + 60
    while asking._child is None or asking._child.doing != name:
        assert time.monotonic() < until
        assert asking.step(now_s, nothing) == []
        time.sleep(0.005)


def values(answers: List[Heard]) -> Any:
    return [(one.name, one.value) for one in answers]


def work() -> int:
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    return 1


def hang() -> None:
    signal.pause()


def die() -> None:
    os._exit(3)


def test_an_answer_comes_and_the_next_question_waits_its_time() -> None:
    asking = Asking({"disk /x": lambda: [1, 2]})
    assert values(heard(asking, 100.0)) == [("disk /x", [1, 2])]
    settle(asking, 100.1)
    assert asking.step(114.0, nothing) == []
    assert asking._child is None
    assert values(heard(asking, 115.1)) == [("disk /x", [1, 2])]


def test_what_costs_more_is_asked_more_seldom() -> None:
    asking = Asking({"gpu": work})
    assert values(heard(asking, 100.0)) == [("gpu", 1)]
    settle(asking, 101.0)
    asking.step(190.0, nothing)
    assert asking._child is None  # 0.2 s of processor time buy a hundred seconds of silence


def test_a_question_that_hangs_is_told_and_left_out_of_the_next_round() -> None:
    asking = Asking({"disk /a": lambda: 1, "gpu": hang, "disk /b": lambda: 2})
    assert values(heard(asking, 100.0)) == [("disk /a", 1)]
    begins(asking, "gpu", 100.0)
    assert asking.step(129.0, nothing) == []
    assert asking.step(131.0, nothing) == [Heard("gpu", hung=True)]
    answers = heard(asking, 131.5)
    answers += heard(asking, 131.6) if len(answers) < 2 else []  # they may come together
    assert sorted(values(answers)) == [("disk /a", 1), ("disk /b", 2)]
    asking.end()


def test_a_child_that_hangs_before_its_first_question_blames_nothing() -> None:
    def hang_early() -> None:
        os.setsid()
        signal.pause()

    asking = Asking({"gpu": lambda: 1})
    asking.step(100.0, hang_early)
    assert asking._child is not None
    until = time.monotonic() + 60
    while os.getpgid(asking._child._pid) != asking._child._pid:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert asking.step(131.0, nothing) == [] and asking._child is None
    assert values(heard(asking, 131.5)) == [("gpu", 1)]


def test_a_hanging_child_is_killed_with_what_it_started() -> None:
    def hang_with_a_child() -> None:
        os.fork()
        signal.pause()

    asking = Asking({"gpu": hang_with_a_child})
    asking.step(100.0, nothing)
    child = asking._child
    assert child is not None
    begins(asking, "gpu", 100.0)
    asking.step(131.0, nothing)
    until = time.monotonic() + 60
    while (look(child._pid) or child) is not child and time.monotonic() < until:
        asking._still_stuck()
        try:
            os.waitpid(child._pid, os.WNOHANG)
        except ChildProcessError:
            break
    assert look(child._pid) is None


def test_a_child_that_dies_names_what_it_died_over() -> None:
    assert heard(Asking({"gpu": die}), 100.0) == [Heard("gpu")]


def test_more_than_a_pipe_holds_arrives_whole() -> None:
    many = [{"index": index, "name": "x" * 1000} for index in range(200)]
    assert values(heard(Asking({"gpu": lambda: many}), 100.0)) == [("gpu", many)]


def test_a_child_that_was_reaped_by_others_is_heard_all_the_same() -> None:
    asking = Asking({"gpu": lambda: 7})
    asking.step(100.0, nothing)
    assert asking._child is not None
    os.waitpid(asking._child._pid, 0)
    assert values(heard(asking, 100.0)) == [("gpu", 7)]


def test_what_was_put_off_is_not_asked() -> None:
    asking = Asking({"gpu": lambda: 1})
    asking.put_off("gpu", 100.0)
    asking.step(600.0, nothing)
    assert asking._child is None
