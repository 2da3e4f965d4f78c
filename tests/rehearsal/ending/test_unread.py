"""What cannot be read on the box is unknown, and unknown refuses; what a newer version wrote is left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.caretaker.process import locks
from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually
from tests.support.screens import Session

_TRAIN = """
import json, os
print("step 1/1 loss 0.5", flush=True)
json.dump({"loss": 0.5}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose simulated rental has a finished run that is home."""
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _TRAIN)
        someone.job()
        done = someone.lease("run", "--rehearse", *NO_SMOKE)
        assert done.code == 0, done.said
        yield someone


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose run has finished on the box while nobody looked."""
    with front(tmp_path / "away") as someone:
        someone.write("train.py", _TRAIN)
        someone.job()
        started = someone.lease("run", "--rehearse", "--detach", *NO_SMOKE)
        assert started.code == 0, started.said
        status = folder(someone) / "status.json"
        assert eventually(lambda: status.exists() and b'"state": "finished"' in status.read_bytes()[-4000:])
        assert eventually(lambda: not locks.is_held(str(folder(someone) / "caretaker.lock")))
        yield someone


def root(person: Front) -> Path:
    return person.home / "boxes" / "rehearsal"


def folder(person: Front) -> Path:
    (path,) = (root(person) / "active").iterdir()
    return path


def refused(person: Front, *words: str) -> str:
    """Ask for the teardown, and see that it is refused, says why, and leaves the box alone."""
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 3, done.said
    assert root(person).is_dir()
    for word in words:
        assert word in done.said, done.said
    return done.said


def goes(person: Front) -> None:
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert not root(person).exists()


def test_a_run_whose_plan_cannot_be_read_is_no_empty_folder(person: Front) -> None:
    other = root(person) / "active" / "theirs-0123456789"
    shutil.copytree(folder(person), other)
    refused(person, "run theirs-0123456789 is on this box and this home does not know it")

    (other / "plan.json").unlink()
    refused(person, "run theirs-0123456789 on this box cannot be read: its plan.json is missing", "lies there")
    (other / "plan.json").write_text('{"schema": "leas')
    refused(person, "run theirs-0123456789 on this box cannot be read: its plan.json is garbled")
    plan = json.loads((other.parent / folder_name(person) / "plan.json").read_text())
    (other / "plan.json").write_text(json.dumps({**plan, "schema": "leasehold.plan/99"}))
    refused(person, "run theirs-0123456789 on this box cannot be read", "leasehold.plan/99")
    other.rename(other.with_name("theirs (copy)"))
    refused(person, "run theirs (copy) on this box cannot be read: its name is not a run's name")

    shutil.rmtree(other.with_name("theirs (copy)"))
    (root(person) / "active" / "empty-0123456789").mkdir()
    (root(person) / "active" / ".ipynb_checkpoints").mkdir()
    goes(person)


def folder_name(person: Front) -> str:
    return str(person.events("run_planned")[0]["run"])


@pytest.mark.parametrize("part", ["plan.json", "journal.jsonl", "out"])
def test_a_run_s_folder_that_was_renamed_is_not_passed_over(person: Front, part: str) -> None:
    other = root(person) / "active" / "theirs 0123456789"
    kept = folder(person) / part
    other.mkdir()
    (shutil.copytree if kept.is_dir() else shutil.copy)(kept, other / part)
    refused(person, "its name is not a run's name")
    shutil.rmtree(other)
    (root(person) / "active" / ".ipynb_checkpoints").mkdir()
    goes(person)


def test_our_own_run_whose_plan_is_gone_is_not_taken_for_an_absent_one(person: Front) -> None:
    kept = (folder(person) / "plan.json").read_bytes()
    (folder(person) / "plan.json").unlink()
    refused(person, "cannot be read: its plan.json is missing")
    (folder(person) / "plan.json").write_bytes(kept)
    goes(person)


@pytest.mark.parametrize("name", ["plan.json", "journal.jsonl", "status.json", "caretaker.lock"])
def test_a_file_of_another_kind_in_a_run_folder_is_unknown_and_hides_none(person: Front, name: str) -> None:
    other = root(person) / "active" / "theirs-0123456789"
    shutil.copytree(folder(person), other)
    (other / name).unlink()
    (other / name).write_text("{}") if name == "plan.json" else (other / name).mkdir()
    plan = person.lease("down", "toy", "--plan", "--json")
    assert plan.code == 3, plan.said
    findings = json.loads(plan.out)["gate"]["findings"]
    (against,) = [one for one in findings if one["outcome"] != "passed"]
    assert against["outcome"] == "unknown" and "run theirs-0123456789 on this box cannot be read" in against["what"]
    assert any("main: home, hash-equal" in one["what"] for one in findings), "our own run is judged all the same"
    refused(person, "theirs-0123456789 on this box cannot be read")


def test_a_run_in_a_folder_below_the_box_s_folder_goes_with_it(person: Front) -> None:
    inner = root(person) / "inner"
    person.job(name="other")
    started = person.lease("run", "--on", "local", "--root", str(inner), "--detach", *NO_SMOKE)
    assert started.code == 0, started.said
    refused(person, "other-", "no receipt and no waiver")
    assert list((inner / "active").iterdir())


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "[]", '{"epoch": 3}', '{"home": "a", "epoch": "x"}', '{"home": "a", "before": 5, "who": 7}', None],
)
def test_a_run_whose_holder_cannot_be_read_may_be_another_homes(person: Front, text: str | None) -> None:
    place = folder(person) / "holder.json"
    place.unlink() if text is None else place.write_text(text)
    run = folder(person).name
    refused(person, "who holds it is unknown", f"lease attach {run} --take-over")

    phrase = f"take over {run}"
    said = Session(person, "unused").type(f"lease attach {run} --take-over", ("To take it over", phrase))
    assert "somebody unknown" in said
    holder = json.loads(place.read_text())
    assert holder["home"] and holder["version"]
    goes(person)


def test_a_holder_that_cannot_be_read_lets_nobody_end_or_resume_the_run(person: Front) -> None:
    (folder(person) / "holder.json").write_text("garbage")
    stopped = person.lease("stop", "toy")
    assert stopped.code == 3, stopped.said
    assert "is unknown: its holder.json is garbled" in stopped.said
    assert (folder(person) / "holder.json").read_text() == "garbage"


def state_of(person: Front) -> str:
    (run,) = json.loads(person.lease("status", "--json", "--refresh").out)["runs"]
    return str(run["state"])


@pytest.mark.parametrize("where", ["middle", "end", "all", "no journal"])
def test_status_and_pull_agree_on_a_journal_that_cannot_be_read_whole(away: Front, where: str) -> None:
    journal = folder(away) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    hurt = {"middle": [len(lines) - 2], "end": [len(lines) - 1], "all": range(len(lines)), "no journal": []}[where]
    for number in hurt:
        lines[number] = b"#" * (len(lines[number]) - 1) + b"\n"
    journal.unlink() if where == "no journal" else journal.write_bytes(b"".join(lines))
    kept = journal.read_bytes() if journal.exists() else b""

    assert state_of(away) == "finished"
    pulled = away.lease("pull", "toy")
    assert pulled.code == 0, pulled.said
    assert "journal.jsonl cannot be read" in pulled.said and "status.json counts" in pulled.said
    assert (journal.read_bytes() if journal.exists() else b"") == kept, "nobody cut off what still can be read"
    assert state_of(away) == "finished"
    goes(away)


def test_a_lost_journal_without_a_status_is_no_run_that_never_was(person: Front) -> None:
    (folder(person) / "journal.jsonl").unlink()
    (folder(person) / "status.json").unlink()
    refused(person, "its state is unknown: journal.jsonl is missing or empty")


def test_a_plan_of_a_newer_version_is_left_alone_by_every_verb(person: Front) -> None:
    run, path = folder(person).name, folder(person) / "plan.json"
    old = path.read_bytes()
    newer = json.dumps({**json.loads(old), "schema": "leasehold.plan/99"}).encode()
    path.write_bytes(newer)
    (place,) = person.project.glob("lease-results/export/toy-*")
    place.rename(place.parent.parent / "put-aside")
    before = {one: one.read_bytes() for one in folder(person).rglob("*") if one.is_file() and one.name != "start.lock"}
    other = Front(person.folder, home="other")
    for who, words in (
        (person, ["pull", "toy"]),
        (person, ["stop", "toy"]),
        (person, ["attach", "toy"]),
        (person, ["run", "--rehearse", *NO_SMOKE]),
        (other, ["attach", run, "--on", "local", "--root", str(root(person))]),
    ):
        done = who.lease(*words)
        assert done.code == 4, (words, done.said)
        assert "leasehold.plan/99" in done.said and "0.1.0 or newer reads it" in done.said, (words, done.said)
    refused(person, "leasehold.plan/99")
    after = {one: one.read_bytes() for one in folder(person).rglob("*") if one.is_file() and one.name != "start.lock"}
    assert after == before
    assert not list(person.project.glob("lease-results/export/toy-*"))


def test_a_status_of_a_newer_version_is_unknown(away: Front) -> None:
    path = folder(away) / "status.json"
    value = json.loads(path.read_text())
    assert value["schema"] == "leasehold.status/1"
    path.write_text(json.dumps({**value, "schema": "leasehold.status/99"}))
    shown = away.lease("status", "--json", "--refresh")
    (run,) = json.loads(shown.out)["runs"]
    assert run["state"] == "unknown" and "leasehold.status/99" in run["reason"]


def test_a_receipt_or_manifest_of_a_newer_version_at_home_is_no_proof(person: Front) -> None:
    (place,) = person.project.glob("lease-results/export/toy-*")
    for name in ("manifest", "receipt"):
        path = place / f"{name}.json"
        old = path.read_bytes()
        path.write_text(json.dumps({**json.loads(old), "schema": f"leasehold.{name}/99"}))
        refusal = person.lease("verify", "toy") if name == "manifest" else person.lease("pull", "toy")
        assert refusal.code != 0, refusal.said
        assert f"leasehold.{name}/99" in refusal.said or "not the one the receipt was written for" in refusal.said
        path.write_bytes(old)
    assert place.is_dir()
