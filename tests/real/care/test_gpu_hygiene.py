"""`lease box gpu` on a rented container: a tool that answers as an H200's does, and a real process with a card open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.autodl_bed import AutodlBox, AutodlCloud
from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually

PYTHON = "/root/miniconda3/bin/python"
TOOL = f"""#!{PYTHON}
import sys
known = {{
    "index": "0", "uuid": "GPU-1", "name": "NVIDIA H200", "pci.bus_id": "00000000:00:06.0", "driver_version": "580.1",
    "persistence_mode": "Enabled", "memory.total": "143771", "memory.used": "5199", "utilization.gpu": "0",
    "temperature.gpu": "36", "clocks.current.sm": "1980", "clocks.max.sm": "1980", "power.draw": "123.5",
}}
asked = sys.argv[1]
if asked.startswith("--query-gpu="):
    print(", ".join(known.get(name, "[N/A]") for name in asked[len("--query-gpu="):].split(",")))
elif asked.startswith("--query-compute-apps="):
    print("900547, GPU-1, 5190")
"""
HOLD = f"setsid {PYTHON} -c 'import time; held = open(\"/dev/nvidia0\"); time.sleep(300)' >/dev/null 2>&1 &"


@pytest.fixture
def box(autodl: AutodlCloud) -> AutodlBox:
    """Give an instance with a card that a process of its own has open."""
    rented = autodl.rent()
    assert rented.run("cat > /usr/bin/nvidia-smi && chmod 755 /usr/bin/nvidia-smi", TOOL.encode()).returncode == 0
    assert rented.run("touch /dev/nvidia0; " + HOLD).returncode == 0
    assert eventually(lambda: b"nvidia0" in rented.run("ls -l /proc/*/fd 2>/dev/null").stdout)
    return rented


@pytest.fixture
def me(autodl: AutodlCloud, box: AutodlBox, tmp_path: Path) -> Iterator[Front]:
    """Give a person who wrote the box into the book."""
    with front(tmp_path / "me", autodl.environment) as person:
        assert person.lease("box", "add", "gpu1", box.ssh_line, "--platform", "autodl").code == 0
        yield person


def test_cards_are_judged_and_a_young_holder_is_shown_and_left_alone(me: Front, box: AutodlBox) -> None:
    done = me.lease("gpu", "gpu1", "--samples", "2", "--json")
    seen = json.loads(done.out)
    (holder,) = seen["holders"]
    assert (holder["cards"], holder["zombie"], holder["listed"]) == (["nvidia0"], False, False)
    assert "120 s is the least" in holder["why"] and "/dev/nvidia0" in holder["command"]
    assert seen["listed_by_driver"] is False, "its numbers are the host's"
    assert (done.code, seen["cards"][0]["name"]) == (0, "NVIDIA H200"), seen["health"]
    killed = json.loads(me.lease("gpu", "gpu1", "--kill", "--json").out)
    assert killed["ended"] == []
    assert b"nvidia0" in box.run("ls -l /proc/*/fd 2>/dev/null").stdout, "it still runs"


def test_a_card_in_use_refuses_the_start_unless_a_reason_is_given(me: Front) -> None:
    me.write("train.py", "import json, os\njson.dump({}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\n")
    me.job(run="python train.py", resources={"gpu": {"count": 1}})
    refused = me.lease("run", "--on", "gpu1", *NO_SMOKE)
    assert refused.code == 3 and "GPU 0 is used by pid 900547 (5.4 GB)" in refused.said
    skips = ("--skip-gate", "audit", "--skip-gate", "env", "--skip-gate", "smoke", "--because", "it is mine")
    assert me.lease("run", "--on", "gpu1", *skips).code == 0
