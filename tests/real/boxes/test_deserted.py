"""A box where nobody is left."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.beds import running
from tests.support.lives import Life, check_home, check_journal, check_trainers, eventually

pytestmark = pytest.mark.real_ssh


def test_a_command_that_watches_is_told_when_nobody_is_left_on_the_box(life: Life) -> None:
    lease = life.run_to_mid_life()
    watch = life.lease("watch", life.run_id)
    assert eventually(lambda: "attempt 1 runs" in watch.said), life.explain()
    folder, first = str(life.run_folder), life.trainer()

    def ours() -> list[int]:  # whoever one of them started just before it died among them
        found = {*running("care", folder), *running("keep", folder), *first, *life.trainer()}
        return [pid for pid in found if pid in processes.snapshot()]

    processes.end(ours)
    life.release()
    assert (lease.wait(), watch.wait()) == (4, 4), life.explain()
    assert "error[box.deserted]" in lease.said
    assert life.run().wait() == 0, life.explain()
    assert life.attempts() == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)
