"""In which order a listener is told: the log of an attempt before its end, whenever the listener comes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.requests.follow import Following
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import write_json
from leasehold.kit.files.journal import Journal


class Listener:
    """A request that writes down what it is told; it may hang up after so many answers."""

    def __init__(self, most: int = 1000) -> None:
        self.told: List[str] = []
        self.offsets: List[int] = []
        self.deserted: List[bool] = []
        self.proven: List[Any] = []
        self._most = most

    @property
    def gone(self) -> bool:
        return len(self.told) >= self._most

    def reply(self, value: Dict[str, Any]) -> None:
        self.deserted.append(bool(value.get("deserted")))
        self.proven += [value["proof_age_s"]] if "proof_age_s" in value else []
        if "events" in value:
            self.told += [event["k"] for event in value["events"]]
            self.offsets.append(value["offset"])

    def data(self, chunk: bytes) -> None:
        self.told.append(chunk.decode())


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Give a run whose first attempt was killed and whose second finished."""
    made = RunFolder.below(str(tmp_path), "toy-1")
    os.makedirs(made.path)
    journal = Journal(made.journal)
    journal.append("run_opened", cells=["main"], pid=1)
    for attempt, code in ((1, 137), (2, 0)):
        os.makedirs(made.attempt("main", attempt))
        Path(made.attempt("main", attempt), "log").write_text("log of %d\n" % attempt)
        journal.append("attempt_starting", cell="main", attempt=attempt)
        journal.append("attempt_started", cell="main", attempt=attempt, pid=7, started="x")
        journal.append("attempt_ended", cell="main", attempt=attempt, code=code)
    journal.append("cell_finished", cell="main")
    journal.append("run_finished")
    return made


STARTS = ["run_opened", "attempt_starting", "attempt_started", "attempt_ended", "attempt_starting", "attempt_started"]
ENDS = ["attempt_ended", "cell_finished", "run_finished"]


def follow(folder: RunFolder, listener: Listener, offset: int = 0, tail_bytes: int = -1) -> None:
    following = Following(listener, folder, offset, {})  # type: ignore[arg-type]
    if tail_bytes >= 0:
        following.only_tail(tail_bytes)
    following.live(time.monotonic() + 20)


def test_who_comes_late_reads_the_log_before_the_end(folder: RunFolder) -> None:
    listener = Listener()
    follow(folder, listener)
    assert listener.told == [*STARTS, "log of 2\n", *ENDS]
    assert listener.offsets[-1] == os.path.getsize(folder.journal)


def test_so_does_who_wants_only_the_last_bytes(folder: RunFolder) -> None:
    listener = Listener()
    follow(folder, listener, tail_bytes=2)
    assert listener.told == [*STARTS, "2\n", *ENDS]


def test_who_hangs_up_before_the_end_is_told_it_when_coming_back(folder: RunFolder) -> None:
    first = Listener(most=len(STARTS))
    follow(folder, first)
    assert first.told == STARTS
    second = Listener()
    follow(folder, second, offset=first.offsets[-1])
    assert second.told[-len(ENDS) :] == ENDS


def test_a_run_whose_end_is_yet_to_be_told_is_not_called_deserted(folder: RunFolder) -> None:
    listener = Listener()
    follow(folder, listener)
    assert listener.told[-1] == "run_finished"
    assert not any(listener.deserted), "nobody lives there because it has ended"


@pytest.mark.parametrize("state", ["finished", "running"])
def test_a_run_that_ended_long_ago_is_not_called_silent_while_replayed(folder: RunFolder, state: str) -> None:
    """The caretaker may also have been killed between the end and its last note: the journal has the end."""
    write_json(folder.status, {"state": state, "heartbeat_unix": time.time() - 3600})
    listener = Listener()
    follow(folder, listener)
    assert listener.proven and set(listener.proven) == {None}


def test_a_run_at_work_is_told_with_the_age_of_its_last_sign_of_life(folder: RunFolder) -> None:
    text = Path(folder.journal).read_text().splitlines(keepends=True)
    Path(folder.journal).write_text("".join(text[: -len(ENDS)]))
    write_json(folder.status, {"state": "running", "heartbeat_unix": time.time() - 3600})
    listener = Listener(most=len(STARTS) + 1)
    follow(folder, listener)
    assert min(listener.proven) >= 3600
