"""A run's readings as a person sees them: a real caretaker, a stand-in for the driver, `lease` as typed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files.journal import read_from
from leasehold.kit.files.rings import read_ring
from tests.support.fake_nvml import FakeNvml, missing_compiler
from tests.support.front import Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

_TRAIN = """
import json, os, time
step = 0
while not os.path.exists("go"):
    step += 1
    print("step %d/1000 loss %.4f lr=0.001" % (step, 2.0 / step), flush=True)
    time.sleep(0.1)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


class Watched:
    """A person whose run is under way on this machine, with two cards."""

    def __init__(self, me: Front, driver: FakeNvml) -> None:
        self.me, self.driver = me, driver
        me.job()
        me.write("train.py", _TRAIN)
        done = me.lease("run", "--detach", "--skip-gate", "smoke", "--because", "it waits for a file")
        assert done.code == 0, done.said
        self.run = done.out.strip()
        self.folder = me.box_root / "active" / self.run

    def kept(self) -> list[dict[str, Any]]:
        return read_ring(str(self.folder / "readings" / "5s.jsonl"))

    def status(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((self.folder / "status.json").read_text()))
        return {}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in read_from(str(self.folder / "journal.jsonl"), 0)[0] if event["k"] == kind]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    return FakeNvml(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def watched(tmp_path: Path, driver: FakeNvml) -> Iterator[Watched]:
    driver.show(driver.card(util=97), driver.card(util=3))
    with front(tmp_path, {"LD_LIBRARY_PATH": str(driver.folder), "COLUMNS": "90"}) as me:
        yield Watched(me, driver)


def test_readings_are_drawn_listed_and_written(watched: Watched, tmp_path: Path) -> None:
    me, run = watched.me, watched.run
    assert eventually(lambda: len(watched.kept()) >= 3 and "step" in watched.kept()[-1])

    drawn = me.lease("plot", run)
    assert drawn.code == 0, drawn.said
    cards = ("GPU utilisation, card 0: last 97 %", "GPU utilisation, card 1: last 3 %")
    for title in ("loss: last ", *cards, "memory used, ", "disk used, state: "):
        assert title in drawn.out

    table, picture = tmp_path / "t.csv", tmp_path / "p.svg"
    written = me.lease("plot", run, "--what", "loss,lr,gpu", "--csv", str(table), "--svg", str(picture))
    assert written.code == 0 and written.out == "", written.said
    assert table.read_text().startswith("unix,time,loss,lr,gpu/card 0 [%],gpu/card 1 [%]\n")
    assert picture.read_text().startswith("<svg ")

    said = json.loads(me.lease("plot", run, "--what", "step", "--since", "1h", "--json").out)
    assert said["run"] == run and said["curves"][0]["points"][-1][1] > 1

    lines = me.lease("logs", run, "--patrol")
    assert lines.code == 0 and "gpu0 97%" in lines.out and "running" in lines.out

    refused = me.lease("plot", run, "--what", "nonsense", "--json")
    assert refused.code == 2 and json.loads(refused.out)["error"]["code"] == "plot.nothing"


def test_a_lost_card_is_journaled_once_and_shown(watched: Watched) -> None:
    assert eventually(lambda: (watched.status().get("readings") or {}).get("gpus"))
    watched.driver.show(watched.driver.card(util=97), watched.driver.card(code=15))
    assert eventually(lambda: gpu_alarms(watched))
    [raised] = gpu_alarms(watched)
    assert (raised["name"], raised["where"], raised["level"]) == ("gpu_lost", "1", "alarm")
    assert eventually(lambda: "gpu_lost 1" in watched.status().get("health", {}).get("alarms", []))
    assert len(gpu_alarms(watched)) == 1


def gpu_alarms(watched: Watched) -> list[dict[str, Any]]:
    """List the cards' alarms; memory and disks are this machine's own."""
    return [event for event in watched.events("alarm_raised") if event["name"].startswith("gpu")]


def test_the_next_caretaker_goes_on_with_the_series(watched: Watched) -> None:
    assert eventually(lambda: len(watched.kept()) >= 2)
    caretaker = int(watched.status()["caretaker_pid"])
    os.kill(caretaker, signal.SIGKILL)
    before = len(watched.kept())
    assert eventually(lambda: len(watched.kept()) >= before + 2)
    assert int(watched.status()["caretaker_pid"]) != caretaker
    numbers = [record["n"] for record in watched.kept()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_nothing_is_left_when_the_run_ends_and_its_readings_stay(watched: Watched) -> None:
    assert eventually(lambda: len(watched.kept()) >= 2)
    (watched.folder / "work" / "main" / "go").touch()
    followed = watched.me.lease("logs", watched.run, "--patrol", "--follow")  # ends with the run
    assert followed.code == 0 and "step " in followed.out
    assert eventually(lambda: watched.status()["state"] == "finished")
    assert eventually(lambda: not watched.me.leftovers())
    assert watched.me.lease("plot", watched.run, "--what", "loss").code == 0
