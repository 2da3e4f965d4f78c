"""What is said of an attempt after the first: that it started again, and then what its own step counter shows."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.kit.files import journal
from tests.support.front import Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full  # each test is several launches

TRAIN = """
import json, os, time
out, state = os.environ["LEASE_OUT"], os.path.join(os.environ["LEASE_OUT"], "state.json")
if os.path.exists(GATE + ".broken"):
    import a_module_that_nobody_has
step = json.load(open(state))["step"] if LOADS and os.path.exists(state) else 0
begun = step
while step < begun + 30 or not os.path.exists(GATE):
    step += 1
    print("step %d/1000 loss 0.5" % step, flush=True)
    with open(state + ".tmp", "w") as file:
        json.dump({"step": step}, file)
    os.replace(state + ".tmp", state)
    time.sleep(0.01)
json.dump({"from": step}, open(os.path.join(out, "result.json"), "w"))
"""
CLAIMS = re.compile(r"(from|at) its last checkpoint|resumed from", re.IGNORECASE)


class Story:
    """A person whose run was stopped after 60 steps and more."""

    def __init__(self, person: Front, loads: bool, attempts: int = 1) -> None:
        self.person, self.gate = person, person.folder / "gate"
        text = TRAIN.replace("GATE", repr(str(self.gate))).replace("LOADS", repr(loads))
        person.write("train.py", text)
        person.job(checkpoint={"path": "state.json"}, attempts=attempts)
        assert person.lease("run", "--detach").code == 0
        (self.run,) = person.runs_on_box()
        self.folder = person.box_root / "active" / self.run
        assert eventually(lambda: self.step() > 60)
        assert person.lease("stop", "toy").code == 0
        self.reached = self.last_step(1)

    def step(self) -> int:
        try:
            return int(json.loads((self.folder / "out" / "main" / "state.json").read_text())["step"])
        except (OSError, ValueError):
            return -1

    def last_step(self, attempt: int) -> int:
        text = (self.folder / "cells" / "main" / f"attempt-{attempt:04d}" / "log").read_text()
        return max(int(number) for number in re.findall(r"step (\d+)/1000 loss", text))

    def events(self, kind: str) -> list[dict]:
        return [event for event in journal.read_from(str(self.folder / "journal.jsonl"), 0)[0] if event["k"] == kind]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path) as someone:
        yield someone
        (tmp_path / "gate").touch()


def test_a_script_that_begins_at_zero_is_said_to_have_begun_there(person: Front) -> None:
    story = Story(person, loads=False)
    story.gate.touch()
    done = person.lease("resume", "toy")
    assert done.code == 0, done.said
    assert not CLAIMS.search(done.said), done.said
    assert f"{story.run}: started again" in done.said
    words = f"attempt 2 began at step 1 although attempt 1 had reached {story.reached}"
    (event,) = story.events("attempt_began")
    assert (event["attempt"], event["began"], event["reached"], event["before"]) == (2, 1, story.reached, 1)
    assert done.said.count(words) >= 2, "as it is seen, and at the end"
    last = done.said.strip().splitlines()[-6:]
    assert any(words in line for line in last), last


def test_a_script_that_loads_its_checkpoint_is_said_to_have_continued(person: Front) -> None:
    story = Story(person, loads=True)
    began = story.step() + 1
    story.gate.touch()
    done = person.lease("resume", "toy")
    assert done.code == 0, done.said
    assert not CLAIMS.search(done.said), done.said
    (event,) = story.events("attempt_began")
    assert event["began"] == began
    assert f"attempt 2 continued at step {began}" in done.said
    assert "although" not in done.said


def test_of_a_script_that_died_at_import_only_the_start_is_said(person: Front) -> None:
    story = Story(person, loads=True)
    Path(str(story.gate) + ".broken").touch()
    failed = person.lease("resume", "toy")
    assert failed.code == 6, failed.said
    assert "started again" in failed.said
    assert not CLAIMS.search(failed.said) and "continued" not in failed.said, failed.said
    assert not story.events("attempt_began")


def test_an_attempt_after_a_kill_is_said_to_start_again_and_no_more(person: Front) -> None:
    story = Story(person, loads=False, attempts=3)
    assert person.lease("resume", "toy", "--detach").code == 0
    assert eventually(lambda: len(story.events("attempt_began")) == 1), "seen while it runs"
    pid = story.events("attempt_started")[-1]["pid"]
    os.kill(pid, signal.SIGKILL)
    story.gate.touch()
    watched = person.lease("watch", "toy")
    assert watched.code == 0, watched.said
    assert not CLAIMS.search(watched.said), watched.said
    assert [event["attempt"] for event in story.events("attempt_began")] == [2, 3]
    assert "attempt 3 began at step 1 although" in watched.said
