"""A cell that was given up while its box was silent, and finished all the same: its files are not deleted unseen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.kit.files import journal
from leasehold.kit.run.run_state import fold
from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually
from tests.support.screens import Session

_TRAIN = """
import json, os, time
out, go = os.environ["LEASE_OUT"], json.loads(os.environ["LEASE_PARAMS"])["go"]
print("step 1/2 loss 0.5", flush=True)
while not os.path.exists(go):
    time.sleep(0.02)
open(os.path.join(out, "notes.txt"), "w").write("kept by nobody")
json.dump({"loss": 1}, open(os.path.join(out, "metrics.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody with a run on a simulated rental that works on, and who gave its cell up while the box was silent."""
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _TRAIN)
        someone.job(
            run="python3 -I -S train.py",
            cells={"list": [{"name": "a", "go": str(tmp_path / "go")}]},
            artifacts=["metrics.json"],
        )
        started = someone.lease("run", "--rehearse", "--detach", *NO_SMOKE)
        assert started.code == 0, started.said
        with silent(someone):
            said = waive(someone)
        assert "NOTHING was salvaged" in said
        (tmp_path / "go").touch()
        assert eventually(lambda: _state(someone) == "finished"), _state(someone)
        yield someone


class silent:
    """The box does not answer while this holds: its Python is one that ends at once."""

    def __init__(self, person: Front) -> None:
        self._note = _root(person) / "python"

    def __enter__(self) -> None:
        self._kept = self._note.read_text() if self._note.exists() else None
        self._note.write_text(f"{shutil.which('false')}\n")

    def __exit__(self, *_: object) -> None:
        self._note.unlink()
        if self._kept is not None:
            self._note.write_text(self._kept)


def _root(person: Front) -> Path:
    return person.home / "boxes" / "rehearsal"


def _run(person: Front) -> str:
    (folder,) = (_root(person) / "active").iterdir()
    return folder.name


def _state(person: Front) -> str:
    return fold(journal.read_from(str(_root(person) / "active" / _run(person) / "journal.jsonl"), 0)[0]).state


def waive(person: Front, run: str = "") -> str:
    phrase = f"give up a of {run or _run(person)}"
    return Session(person, "unused").type("lease waive toy a", ("type exactly", phrase))


def test_what_finished_after_the_waiver_is_kept_until_home_or_given_up(person: Front) -> None:
    run = _run(person)
    refused = person.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert _root(person).is_dir(), "nothing was deleted"
    assert "metrics.json" in refused.said and "not known when it was given up" in refused.said
    assert f"lease waive {run} a --take-back" in refused.said and f"lease pull {run}" in refused.said

    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    left = {(entry["cell"], entry["path"]) for entry in plan["not_coming_home"]}
    assert left == {("a", "metrics.json"), ("a", "notes.txt")}

    assert "2 files were salvaged" in waive(person)
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert not _root(person).exists()
    assert "everything is home" not in done.said
    assert "given up: cell a of" in done.said and "metrics.json" in done.said
    (kept,) = person.project.glob(f"lease-results/quarantine/{run}--waived-a-*/salvaged/metrics.json")
    assert json.loads(kept.read_text()) == {"loss": 1}


def test_the_way_that_the_refusal_names_brings_it_home(person: Front) -> None:
    assert person.lease("waive", "toy", "a", "--take-back").code == 0
    pulled = person.lease("pull", "toy")
    assert pulled.code == 0, pulled.said
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    (kept,) = person.project.glob("lease-results/export/*/cells/a/metrics.json")
    assert json.loads(kept.read_text()) == {"loss": 1}


def test_a_file_that_changed_after_it_was_named_is_not_given_up(person: Front) -> None:
    waive(person)
    (folder,) = (_root(person) / "active").glob("*/out/a")
    (folder / "metrics.json").write_text('{"loss": 2}')
    (folder / "more.txt").write_text("new")
    refused = person.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert "'metrics.json' (changed since)" in refused.said and "'more.txt'" in refused.said


def test_a_waiver_does_not_cover_a_run_missing_later_until_typed_again(person: Front) -> None:
    """The disk with our folder is not mounted: it holds files that nobody has seen, and an empty folder answers."""
    run, runs, aside = _run(person), _root(person) / "active", person.folder / "unmounted"
    runs.rename(aside)
    refused = person.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert _root(person).is_dir(), "nothing was deleted"
    assert "no longer on the box: what it left is unknown" in refused.said and "mount the disk" in refused.said

    shutil.rmtree(runs, ignore_errors=True)
    aside.rename(runs)
    back = person.lease("down", "toy", "--rehearsal")
    assert back.code == 3 and "metrics.json" in back.said, back.said

    runs.rename(aside)
    assert "the box answers and has no such run, NOTHING was salvaged" in waive(person, run)
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert not _root(person).exists()
