"""The suite about itself: what the fast tier holds, that collecting starts nothing, and what its last lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.tiers import skipped_by_part

ROOT = Path(__file__).resolve().parents[3]

# A plugin of a child's: an audit hook in this process would stay for every test after it.
_WATCHER = """
import os, sys
from tests.support.tiers import is_fast
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")
lines = []
sys.addaudithook(lambda name, words: lines.append("started %r %r" % (name, words)) if name in STARTS else None)

def pytest_collection_finish(session):
    lines.extend(("fast " if is_fast(item) else "full ") + item.nodeid for item in session.items)
    with open(os.environ["COLLECTED"], "w") as file:
        file.write("\\n".join(line.replace("\\n", " ") for line in lines))
"""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Collect the whole suite in a child: test names by tier, and the processes that were started meanwhile."""
    folder = tmp_path_factory.mktemp("collected")
    (folder / "watcher.py").write_text(_WATCHER)
    asked = [sys.executable, "-m", "pytest", "-p", "watcher", "-p", "no:cacheprovider", "--collect-only", "-q", "-q"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "LEASEHOLD_"))}
    environment.update(PYTHONPATH=f"{folder}:{ROOT}", COLLECTED=str(folder / "lines"))
    done = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, list[str]] = {"fast": [], "full": [], "started": []}
    for line in (folder / "lines").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        found[kind].append(rest)
    return found


@pytest.mark.full
def test_collecting_starts_no_process(collected: dict[str, list[str]]) -> None:
    assert collected["started"] == []


@pytest.mark.full
def test_the_fast_tier_plays_each_event_with_three_victims_in_one_phase(collected: dict[str, list[str]]) -> None:
    def cases(tier: str) -> list[list[str]]:
        ids = [name.split("[")[1] for name in collected[tier] if "test_the_identical_command_continues[" in name]
        return [case.rstrip("]").rsplit("-", 2) for case in ids]

    fast = [(event, victim) for event, _, victim in cases("fast")]
    assert len(fast) == len(set(fast))
    assert set(fast) <= {(event, victim) for event, _, victim in cases("full")}
    events = {event for event, _, _ in cases("full")}
    assert {event: sum(one == event for one, _ in fast) for event in events} == dict.fromkeys(events, 3)


@pytest.mark.full
def test_the_fast_tier_leaves_out_the_beds_of_the_full_one(collected: dict[str, list[str]]) -> None:
    contract = [name for name in collected["fast"] if name.startswith("tests/contract/")]
    assert contract
    assert not [name for name in contract if "[ssh" in name or "[autodl" in name]
    assert not [name for name in collected["fast"] if name.startswith("tests/real/slurm/")]


def test_skips_are_counted_by_the_part_that_is_missing() -> None:
    reasons = [
        "Skipped: no sshd here (Debian: apt-get install openssh-server openssh-client)",
        "Skipped: no sshd here (Debian: apt-get install openssh-server openssh-client)",
        "Skipped: could not import 'torch': No module named 'torch'",
        "Skipped: root may write anywhere",
    ]
    reports = [SimpleNamespace(longrepr=("file.py", 1, reason)) for reason in reasons]
    assert skipped_by_part(reports) == ({"sshd": 2, "torch": 1}, {"root may write anywhere": 1})
