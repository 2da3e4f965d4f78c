"""The plan gate judges alike in `lease plan` and `lease run`, by the folder and the copies that the box really has."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.shells.cli.main import main
from tests.support import processes
from tests.support.front import Done, Front

TRAINER = (
    "import json, os\njson.dump({'loss': 0.5}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\nprint('step 1')\n"
)
REFUSED = 3


class Person(Front):
    """A person whose commands run in this process, which is quick; `launch` is for those that start something."""

    capsys: pytest.CaptureFixture[str]

    def lease(self, *words: str, **_: Any) -> Done:  # type: ignore[override]
        code = main(list(words))
        said = self.capsys.readouterr()
        return Done(code, said.out, said.err)

    def job(self, **change: Any) -> None:
        """Write a job whose missing checkpoints have a reason, so that the gate judges the rest."""
        super().job(**{"checkpoint": {"because": "the test is about the other findings"}, **change})

    def launch(self, *words: str) -> Done:
        """Run one command as a process of its own; what it leaves behind is ended after the test."""
        return super().lease(*words)


@pytest.fixture
def me(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Person]:
    person = Person(tmp_path, {"LEASEHOLD_CONFIG": str(tmp_path / "config")})
    person.capsys = capsys
    for name in ("LEASEHOLD_HOME", "LEASEHOLD_CONFIG", "NO_COLOR"):
        monkeypatch.setenv(name, person.environment[name])
    monkeypatch.chdir(person.project)
    person.write("train.py", TRAINER)
    person.job(expect="10h")
    yield person
    processes.end(person.leftovers)


def add(me: Person, name: str, platform: str, *words: str) -> None:
    """Put this machine into the book as a box of a platform, with our folder on whatever disk the test has."""
    where = ["--root", str(me.folder / name), "--no-contact"]
    done = me.lease("box", "add", name, "local", "--platform", platform, *where, *words)
    assert done.code == 0, done.said


def moon(me: Person, base: str, effect: str) -> None:
    """Write a platform of one's own that takes boxes away after 5 s, with this effect."""
    overlays = me.folder / "config" / "profiles"
    overlays.mkdir(parents=True)
    spot = {"available": "yes", "grace_s": 5, "effect": effect, "source": "own"}
    traits = {"spot_available": "yes", "spot_grace": "5s"}
    value = {"extends": base, "id": "moon", "title": "a moon base", "traits": traits, "spot": spot}
    (overlays / "moon.yaml").write_text(json.dumps({**value, "landlord": "person"}))


def planned(me: Person, where: str, *words: str) -> dict[str, Any]:
    """Return what `lease plan --json` says of one candidate."""
    done = me.lease("plan", "--on", where, "--json", *words)
    assert done.code in (0, REFUSED), done.said
    sheet: dict[str, Any] = json.loads(done.out)["plans"][0]
    return sheet


def spelled(findings: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return outcomes and sentences without figures: a balance shrinks between two commands."""
    return [(one["outcome"], re.sub(r"[\d.]+ ?(d|h|min|s)\b ?", "", one["what"])) for one in findings]


def run_gate(me: Person) -> dict[str, Any]:
    """Return the plan gate's last verdict of a `lease run`, as the ledger has it."""
    return [event for event in me.events("gate_judged") if event["gate"] == "plan"][-1]


def one_verdict(me: Person, box: str, outcome: str, *words: str) -> str:
    """Plan, run, and see that both gave this verdict for the same reasons; return what the run said."""
    before = planned(me, box, *words)["gate"]
    done = me.lease("run", "--on", box, *words)
    after = run_gate(me)
    assert (before["outcome"], after["outcome"]) == (outcome, outcome), done.said
    assert spelled(before["findings"]) == spelled(after["findings"])
    if outcome == "refused":
        assert done.code == REFUSED and "error[plan.refused]" in done.said
    return done.said


# ---------------------------------------------------------------- one verdict


def test_a_balance_of_the_book_that_ends_before_the_run_refuses_it_too(me: Person) -> None:
    add(me, "gpu1", "runpod", "--price", "2USD/h", "--balance", "1USD")
    assert "does not survive a balance of zero" in one_verdict(me, "gpu1", "refused")


def test_a_balance_given_to_run_is_judged_recorded_and_used_by_plan(me: Person) -> None:
    add(me, "gpu1", "runpod")
    one_verdict(me, "gpu1", "refused", "--price", "2USD/h", "--balance", "1USD")
    assert [event["amount"] for event in me.events("lease_balance")] == ["1USD"]
    assert json.loads(me.lease("box", "show", "gpu1", "--json").out)["balance"] == "1USD"
    one_verdict(me, "gpu1", "refused", "--price", "2USD/h")


def test_a_balance_that_is_no_amount_is_refused_before_any_write(me: Person) -> None:
    done = me.lease("run", "--on", "local", "--balance", "plenty")
    assert done.code == 2 and "error[box.bad_balance]" in done.said
    assert not me.events("lease_opened")


def test_spot_capacity_of_the_book_is_judged_by_run(me: Person) -> None:
    moon(me, "rehearsal", "destroy")
    add(me, "gpu1", "moon", "--spot")
    assert "an eviction ends in destroy, and box disk does not survive that" in one_verdict(me, "gpu1", "refused")
    assert me.lease("box", "add", "gpu1", "--replace", "--no-contact", "--no-spot").code == 0
    assert planned(me, "gpu1")["gate"]["outcome"] == "passed"


def test_spot_given_to_run_holds_for_the_lease(me: Person) -> None:
    moon(me, "rehearsal", "destroy")
    add(me, "gpu1", "moon")
    one_verdict(me, "gpu1", "refused", "--spot")
    assert me.events("lease_spot")[-1]["spot"] is True
    one_verdict(me, "gpu1", "refused")


def test_a_disk_of_known_size_is_in_the_price_of_both(me: Person) -> None:
    add(me, "gpu1", "runpod", "--price", "2USD/h", "--balance", "25USD")
    me.lease("run", "--on", "gpu1")  # opens the lease; runpod's volume is not here, so nothing starts
    assert run_gate(me)["outcome"] == "passed"
    assert me.lease("box", "tell", "gpu1", "--disk", "volume disk=100000GB").code == 0
    assert "does not survive a balance of zero" in one_verdict(me, "gpu1", "refused")


def test_a_candidate_is_passed_over_for_what_the_plan_says_of_it(me: Person) -> None:
    add(me, "gpu1", "runpod", "--price", "2USD/h", "--balance", "1USD")
    me.job(expect="10h", candidates=["gpu1"])
    done = me.lease("run")
    assert done.code == REFUSED and "error[candidates.none]" in done.said
    assert "does not survive a balance of zero" in done.said


def test_a_sweep_over_several_boxes_is_judged_on_each(me: Person) -> None:
    for name in ("gpu1", "gpu2"):
        add(me, name, "runpod", "--price", "2USD/h", "--balance", "1USD")
    me.job(expect="10h", cells=[{"name": "a"}, {"name": "b"}])
    done = me.lease("run", "--on", "gpu1,gpu2")
    assert done.code != 0
    judged = [event for event in me.events("gate_judged") if event["gate"] == "plan"]
    assert judged and {event["outcome"] for event in judged} == {"refused"}


def test_a_sweep_whose_cards_nobody_counted_is_unknown_to_plan_and_run(me: Person) -> None:
    add(me, "gpu1", "runpod", "--price", "2USD/h", "--balance", "50USD")
    me.job(expect="10h", cells=[{"name": "a"}, {"name": "b"}, {"name": "c"}], resources={"gpu": {"count": 1}})
    assert "if its cells run one after the other" in one_verdict(me, "gpu1", "unknown")
    assert planned(me, "gpu1", "--cards", "3")["gate"]["outcome"] == "passed"
    assert planned(me, "gpu1", "--cards", "1")["gate"]["outcome"] == "refused"


# ---------------------------------------------------------------- where our folder lies


def test_a_root_on_a_tier_that_the_verb_empties_refuses_a_park(me: Person) -> None:
    me.job(when_done="park")
    sheet = planned(me, "runpod", "--root", "/root/lease")
    assert sheet["state_tier"]["name"] == "container disk" and not sheet["state_tier"]["survives_verb"]
    assert sheet["gate"]["outcome"] == "refused"
    assert planned(me, "runpod", "--root", "/workspace/lease")["gate"]["outcome"] == "passed"
    add(me, "gpu1", "runpod")
    said = one_verdict(me, "gpu1", "refused")
    assert f"`stop` deletes container disk (/, with {os.path.realpath(me.folder / 'gpu1')})" in said


def test_down_says_what_the_verb_does_to_our_folder(me: Person) -> None:
    add(me, "gpu1", "runpod")
    me.lease("run", "--on", "gpu1")
    said = me.lease("down", "gpu1", "--verb", "stop", "--plan").said
    assert f"our folder {me.folder / 'gpu1'} is on container disk: `stop` deletes it" in said


def test_a_root_on_no_tier_is_unknown_and_a_park_is_not_harmless(me: Person) -> None:
    add(me, "gpu1", "autodl-pro")
    me.job(when_done="park")
    said = one_verdict(me, "gpu1", "unknown")
    assert "is on no tier that the profile of autodl-pro names: whether `power-off` deletes it is not known" in said
    down = me.lease("down", "gpu1", "--verb", "power-off", "--plan").said
    assert "is on unknown tier: `power-off` may delete it" in down


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("platform", ["lambda", "runpod"])
def test_no_copy_is_promised_where_its_path_is_not_known(me: Person, platform: str) -> None:
    said = me.lease("plan", "--on", platform).out
    assert "copied to" not in said
    assert "no copy " in said and "--durable PATH" in said
    assert planned(me, platform)["paths"]["durable"] == ""


def test_a_named_durable_folder_gets_the_copy_and_the_screens_say_so(me: Person, other_disk: Path) -> None:
    add(me, "gpu1", "generic-ssh", "--durable", str(other_disk))
    assert (
        f"copied to     {other_disk}/leasehold  (durable folder, as you said)" in me.lease("plan", "--on", "gpu1").out
    )
    tested = me.lease("box", "test", "gpu1")
    assert tested.code == 0 and "another file system than our folder's" in tested.said
    done = me.launch("run", "--on", "gpu1")
    assert done.code == 0, done.said
    copies = list(other_disk.glob("leasehold/export/**/result.json"))
    assert [json.loads(copy.read_text()) for copy in copies] == [{"loss": 0.5}], done.said


def test_a_durable_folder_on_our_own_disk_is_refused_by_test_and_audit(me: Person) -> None:
    beside = me.folder / "beside"
    beside.mkdir()
    add(me, "gpu1", "generic-ssh", "--durable", str(beside))
    assert "the same file system as our folder" in me.lease("box", "test", "gpu1").said
    done = me.lease("run", "--on", "gpu1")
    assert done.code == REFUSED and "error[audit.refused]" in done.said
    skipped = me.launch("run", "--on", "gpu1", "--skip-gate", "audit", "--because", "to see what the box says")
    assert skipped.code == 0, skipped.said
    assert "no durable copy:" in skipped.said and "on the same file system as the run" in skipped.said
    assert not list(beside.iterdir())


@pytest.mark.parametrize(
    "platform, path, said",
    [
        ("lambda", "data", "box.bad_durable"),
        ("lambda", "/mnt/../etc", "box.bad_durable"),
        ("runpod", "/workspace/x", "if network volume is mounted there: --platform runpod-volume"),
        ("slurm", "/mnt/data", "which outlives the box: no copy is made"),
    ],
)
def test_a_durable_folder_that_cannot_be_one_is_refused(me: Person, platform: str, path: str, said: str) -> None:
    words = ["box", "add", "gpu1", "local", "--platform", platform, "--root", "/root/lease", "--durable", path]
    done = me.lease(*words)
    assert done.code == 2 and said in done.said
    assert not me.events("box_added")


# ---------------------------------------------------------------- grace


def test_a_checkpoint_that_outlasts_the_grace_is_warned_of_at_launch(me: Person) -> None:
    moon(me, "local", "nothing")
    add(me, "gpu1", "moon", "--spot")
    me.job(checkpoint={"path": "result.json", "size": "1MB", "write_time": "30s"})
    done = me.launch("run", "--on", "gpu1")
    assert done.code == 0, done.said
    assert "a checkpoint takes 30 s to write and an eviction leaves 5 s" in done.said


@pytest.fixture
def other_disk(me: Person) -> Iterator[Path]:
    """A folder on another file system than the test's own, which every Linux has in memory."""
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK) or place.stat().st_dev == me.folder.stat().st_dev:
        pytest.skip("needs a second file system: a writable /dev/shm")
    import tempfile

    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)
