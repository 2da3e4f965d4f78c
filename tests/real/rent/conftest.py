"""A person with a key for RunPod's fake, whose boxes are real sshd servers on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from tests.fakes.landlords.server import FakeLandlord
from tests.fakes.landlords.sshd_houses import RealClock, SshdHouses, sshd_houses
from tests.fakes.landlords.street import environment, fake_landlord
from tests.support.front import Done, Front, front

TRAIN = """
import json, os, sys, time
out = os.environ["LEASE_OUT"]
for step in range(3):
    print("step", step, flush=True)
json.dump({"loss": 0.25}, open(os.path.join(out, "result.json"), "w"))
"""


@dataclass
class Renter:
    """A person at the command line, the landlord, and where its boxes run."""

    me: Front
    runpod: FakeLandlord
    houses: SshdHouses

    def lease(self, *words: str) -> Done:
        """Run a command without a terminal."""
        return self.me.lease(*words)

    def types(self, phrase: str, *words: str, timeout_s: float = 120.0) -> Done:
        """Run a command on a terminal and type this phrase where it is asked for."""
        child = pexpect.spawn(
            sys.executable, ["-m", "leasehold", *words], cwd=str(self.me.project), env=self.me.environment,
            encoding="utf-8", timeout=timeout_s, dimensions=(50, 200),
        )  # fmt: skip
        said = ""
        if phrase and child.expect(["type exactly:", pexpect.EOF]) == 0:
            said = str(child.before)
            child.sendline(phrase)
            child.expect(pexpect.EOF)
        elif not phrase:
            child.expect(pexpect.EOF)
        child.close()
        return Done(child.exitstatus if child.exitstatus is not None else -1, "", said + str(child.before))


@pytest.fixture
def renter(tmp_path: Path) -> Iterator[Renter]:
    """Give a person whose profile of RunPod has the volume in a folder of the test."""
    with sshd_houses(tmp_path / "boxes") as houses, fake_landlord("runpod", RealClock(), houses) as runpod:  # type: ignore[arg-type]
        runpod.world.boot_s = 0.5
        variables = {**environment(runpod), "LEASEHOLD_CONFIG": str(tmp_path / "config"), "LEASEHOLD_NO_KEYRING": "1"}
        place = tmp_path / "config" / "profiles"
        place.mkdir(parents=True)
        tiers = [{"name": "volume disk", "path": str(houses.workspace), "own_mount": False}]
        (place / "runpod.yaml").write_text(json.dumps({"tiers": tiers}))
        with front(tmp_path / "me", variables) as me:
            me.write("train.py", TRAIN)
            me.job(smoke="python3 -I -S train.py", expect="10min", run="python3 -I -S train.py")
            yield Renter(me, runpod, houses)
