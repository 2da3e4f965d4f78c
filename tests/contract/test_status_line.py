"""Status without Python: the boot line itself prints each run's status and its age."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasehold.errors import LinkError
from leasehold.transport.contract import Link, Transport
from leasehold.transport.wire import ask_status
from tests.contract.doors import RESULT, RUN, WAITS, Door, let_go, plan_of, wait_end
from tests.support.lives import eventually


class Bare:
    """A transport to the same box with almost nothing on its PATH."""

    def __init__(self, door: Door) -> None:
        self.name = door.transport.name
        self._inner = door.transport
        self._tools, tools = door.beside("tools")
        tools.mkdir()
        for name in ("sh", "cat", "date", "stat"):
            (tools / name).symlink_to(next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists()))

    def open(self, command: str) -> Link:
        return self._inner.open(f"PATH={self._tools}; export PATH; {command}")


def test_a_box_that_never_saw_us_has_no_runs_and_stays_untouched(door: Door) -> None:
    assert ask_status(door.transport, door.place) == []
    assert not door.root.exists()


def test_every_run_is_told_with_its_age_and_no_python_starts(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    engine.close()
    assert eventually(lambda: not door.serving())
    assert eventually(lambda: ask_status(door.transport, door.place)), "it is written a moment after the start"
    bare = Bare(door)
    [(age_s, text)] = ask_status(bare, door.place)
    value = json.loads(text)
    assert (value["run"], value["state"]) == (RUN, "running")
    assert 0 <= age_s < 3600
    assert door.serving() == []
    let_go(door)
    wait_end(door.engine())
    assert eventually(lambda: states(bare, door) == ["finished"]), "the journal has the end first"


def states(transport: Transport, door: Door) -> list[str]:
    return [json.loads(text)["state"] for _, text in ask_status(transport, door.place)]


def test_several_runs_are_several_lines(door: Door) -> None:
    for number in (1, 2, 3):
        run = f"job-{number}"
        wait_end(door.start(plan_of(RESULT, run=run)), run)
    told = [json.loads(text)["run"] for _, text in ask_status(door.transport, door.place)]
    assert told == ["job-1", "job-2", "job-3"]


@pytest.mark.parametrize(
    "reason", ["two\nlines", "back\\slash \\n \\c end", "tab\t", "中文 'quoted' \"twice\"", "%s %d"]
)
def test_a_status_arrives_as_it_was_written_whatever_it_holds(door: Door, reason: str) -> None:
    folder = door.root / "active" / RUN
    folder.mkdir(parents=True)
    written = {"run": RUN, "state": "failed", "reason": reason}
    (folder / "status.json").write_text(json.dumps(written, ensure_ascii=False) + "\n", encoding="utf-8")
    [(_, text)] = ask_status(door.transport, door.place)
    assert json.loads(text) == written


def test_a_login_that_prints_is_skipped_here_too(door: Door) -> None:
    class Loud:
        name = door.transport.name

        def open(self, command: str) -> Link:
            return door.transport.open("echo Welcome; printf 'no newline'; " + command)

    wait_end(door.start(plan_of(RESULT)))
    assert len(ask_status(Loud(), door.place)) == 1


def test_an_answer_that_ends_early_is_a_lost_link(door: Door) -> None:
    class Short:
        name = door.transport.name

        def open(self, command: str) -> Link:
            return door.transport.open(command.replace("echo end;", "").replace("exec sh", "exec /bin/sh"))

    with pytest.raises(LinkError):
        ask_status(Short(), door.place)


def test_a_run_of_ten_thousand_cells_is_told_whole(door: Door) -> None:
    place = door.root / "active" / RUN
    place.mkdir(parents=True)
    cells = {f"cell-{number:05d}": {"state": "pending", "why": "x" * 600} for number in range(10_000)}
    (place / "status.json").write_text(json.dumps({"run": RUN, "cells": cells}))
    (place / "plan.json").write_text("{}")
    [(_, text)] = ask_status(door.transport, door.place)
    assert len(json.loads(text)["cells"]) == 10_000
