"""Today's spine on a simulated AutoDL box: no tmux, no rsync, no python3, a talkative login, a power button."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.autodl_bed import DATA, AutodlBox, AutodlCloud
from tests.support.front import NO_SMOKE, Done, Front, front
from tests.support.lives import STEPS, TRAINER, TRUE_SUM, eventually
from tests.support.screens import Session

SIDE = DATA + "/side"
BOX = "gpu1"


@pytest.fixture
def box(autodl: AutodlCloud) -> AutodlBox:
    """Give an instance with a place for the trainer's diary on its data disk."""
    rented = autodl.rent()
    rented.behind(SIDE).mkdir()
    return rented


@pytest.fixture
def me(autodl: AutodlCloud, box: AutodlBox, tmp_path: Path) -> Iterator[Front]:
    """Give a person who wrote the box into the book as the console shows it, and whose project can resume."""
    with front(tmp_path / "me", autodl.environment) as person:
        shutil.copy(TRAINER, person.project / "train.py")
        env = {"SIDE": SIDE, "STEPS": str(STEPS), "STEP_S": "0.02"}
        person.job(env=env, artifacts={"result.json": {"loads": "json", "keys": ["steps", "sum"]}})
        good(person.lease("box", "add", BOX, box.ssh_line, "--platform", "autodl", "--price", "1.98CNY/h"))
        yield person


def good(done: Done) -> Done:
    """Expect success."""
    assert done.code == 0, done.said
    return done


def result(done: Done) -> dict[str, int]:
    """Read the artifact that a command brought home."""
    return dict(json.loads((Path(done.out.strip()) / "cells" / "main" / "result.json").read_text()))


def test_the_box_is_fit_as_it_comes(me: Front) -> None:
    said = good(me.lease("box", "test", BOX)).said
    assert "python: 3." in said and "at /root/miniconda3/bin/python" in said
    assert "AutoDL" in said, "the banner was seen and skipped"
    audit = good(me.lease("check", "audit", "--on", BOX)).said
    assert "memory limit 8.6 GB (cgroup v1" in audit
    assert f"{DATA} (data disk) is a mount of its own" in audit
    assert "the run will outlive this connection (setsid; tmux missing)" in audit


@pytest.mark.parametrize(
    "command", ["python train.py", "python3 -I -S train.py", "/root/miniconda3/bin/python train.py"]
)
def test_a_run_comes_home_verified(me: Front, box: AutodlBox, command: str) -> None:
    value = json.loads((me.project / "lease.yaml").read_text())
    me.job(**{**value, "run": command})
    done = good(me.lease("run", "--on", BOX, *NO_SMOKE))
    assert result(done) == {"steps": STEPS, "sum": TRUE_SUM}
    assert "receipt written" in done.said
    assert result(good(me.lease("pull", "toy"))) == {"steps": STEPS, "sum": TRUE_SUM}


def test_the_run_lies_on_the_data_disk(me: Front, box: AutodlBox) -> None:
    good(me.lease("run", "--on", BOX, *NO_SMOKE))
    assert [path.name[:4] for path in box.behind(f"{DATA}/leasehold/active").iterdir()] == ["toy-"]
    assert not box.behind("/root/.leasehold").exists()


def test_a_detached_run_outlives_the_connection(me: Front, box: AutodlBox) -> None:
    box.behind(SIDE + "/hold").touch()
    good(me.lease("run", "--on", BOX, *NO_SMOKE, "--detach"))
    assert eventually(lambda: box.behind(SIDE + "/holding").exists())
    assert [event["kind"] for event in me.events("detach_proven")], "without tmux, and seen over a second connection"
    box.behind(SIDE + "/hold").unlink()
    assert result(good(me.lease("run", "--on", BOX, *NO_SMOKE))) == {"steps": STEPS, "sum": TRUE_SUM}
    assert starts(box) == 1


def test_a_box_powered_off_in_mid_run_goes_on_at_another_port(me: Front, box: AutodlBox) -> None:
    box.behind(SIDE + "/hold").touch()
    good(me.lease("run", "--on", BOX, *NO_SMOKE, "--detach"))
    assert eventually(lambda: box.behind(SIDE + "/holding").exists())
    box.run("shutdown")
    box.wait_off()
    gone = me.lease("check", "audit", "--on", BOX)
    assert gone.code != 0 and "link.refused" in gone.said
    box.behind(SIDE + "/hold").unlink()
    box.power_on()
    good(me.lease("box", "add", BOX, box.ssh_line, "--replace"))
    done = good(me.lease("run", "--on", BOX, *NO_SMOKE))
    assert result(done) == {"steps": STEPS, "sum": TRUE_SUM}
    assert starts(box) == 2
    assert "start 0" in diary(box)[0] and not diary(box)[-1].endswith(" 0")


def test_results_can_be_fetched_without_the_card(me: Front, box: AutodlBox) -> None:
    box.behind(SIDE + "/hold").touch()
    good(me.lease("run", "--on", BOX, *NO_SMOKE, "--detach"))
    box.behind(SIDE + "/hold").unlink()
    assert eventually(lambda: '"finished"' in status(box))
    box.run("shutdown")
    box.wait_off()
    box.power_on_without_gpu()
    good(me.lease("box", "add", BOX, box.ssh_line, "--replace"))
    assert result(good(me.lease("pull", "toy"))) == {"steps": STEPS, "sum": TRUE_SUM}


def test_a_typed_park_powers_the_box_off_from_inside_and_keeps_its_disks(me: Front, box: AutodlBox) -> None:
    good(me.lease("run", "--on", BOX, *NO_SMOKE))
    terminal = Session(me, "park")
    terminal.type(f"lease park {BOX}", ("type exactly", "no, wait"), code=3)
    assert box.on
    said = terminal.type(f"lease park {BOX}", ("type exactly", f"power-off {BOX}-1"), code=5)
    box.wait_off()
    assert "Whether it is off is unknown: only the console shows that" in said
    assert "if it is off: on 20" in said and "(15 days): the instance is released" in said
    assert box.behind(f"{DATA}/leasehold/active").is_dir()
    assert meter(me)["state"] == "unknown"
    again = me.lease("park", BOX)
    assert again.code == 3 and f"lease down {BOX}-1 --stopped" in again.said


def test_a_parked_box_is_metered_as_parked_until_a_run_finds_it_on_again(me: Front, box: AutodlBox) -> None:
    good(me.lease("run", "--on", BOX, *NO_SMOKE))
    terminal = Session(me, "meter-park")
    terminal.type(f"lease park {BOX}", ("type exactly", f"power-off {BOX}-1"), code=5)
    box.wait_off()
    doubtful = meter(me)
    assert (doubtful["state"], doubtful["burn_per_hour"]) == ("unknown", {"CNY": "1.9800"}), "nobody looked yet"
    assert "not confirmed" in good(me.lease("status")).out
    terminal.type(f"lease down {BOX} --stopped", ("when it stopped answering", f"stopped {BOX}-1 since then"))
    parked = meter(me)
    assert parked["since"] == doubtful["since"], "off since it fell silent"
    since, due = (datetime.fromisoformat(parked[key]) for key in ("since", "release"))
    assert (parked["state"], parked["burn_per_hour"], (due - since).days) == ("parked", {"CNY": "0.0000"}, 15)
    assert meter(me)["cost"] == parked["cost"], "its compute rests"
    shown = good(me.lease("status")).out
    assert f"{BOX} (autodl)  parked" in shown and "a powered-off instance is released" in shown
    good(me.lease("box", "tell", BOX, "--disk", "data disk=150GB"))
    assert meter(me)["burn_per_hour"] == {"CNY": "0.0275"}
    box.power_on()
    good(me.lease("box", "add", BOX, box.ssh_line, "--replace"))
    good(me.lease("run", "--on", BOX, *NO_SMOKE, "--again"))
    assert (meter(me)["state"], meter(me)["release"]) == ("running", "")


def meter(me: Front) -> dict[str, Any]:
    """Read the one lease's meter, with the date of its next clock."""
    (lease,) = json.loads(good(me.lease("status", "--json")).out)["leases"]
    return {**lease, "release": (lease["next_clock"] or {}).get("date", "")}


def test_a_standing_approval_parks_after_the_receipt_and_not_before(me: Front, box: AutodlBox) -> None:
    value = json.loads((me.project / "lease.yaml").read_text())
    me.job(**{**value, "when_done": "park"})
    assert "when_done: park" in good(me.lease("run", "--on", BOX, *NO_SMOKE)).said
    assert box.on, "nobody said yes yet"
    Session(me, "standing").type(f"lease park {BOX} --standing 14d", ("> ", f"standing power-off {BOX}"))
    good(me.lease("run", "--on", BOX, *NO_SMOKE, "--again"))
    box.wait_off()
    told = [event["kind"] for event in me.events()]
    wanted = ["receipt_written", "standing_granted", "receipt_written", "verb_unknown"]
    assert [kind for kind in told if kind in wanted] == wanted


def diary(box: AutodlBox) -> list[str]:
    """Read what the trainers wrote: what, pid, attempt, step."""
    lines = box.behind(SIDE + "/trainers").read_text().splitlines()
    return [f"{line.split()[0]} {line.split()[-1]}" for line in lines]


def starts(box: AutodlBox) -> int:
    """Count the trainers that began."""
    return sum(line.startswith("start ") for line in diary(box))


def status(box: AutodlBox) -> str:
    """Read the run's status file from behind."""
    return "".join(path.read_text() for path in box.behind(DATA).glob("leasehold/active/*/status.json"))
