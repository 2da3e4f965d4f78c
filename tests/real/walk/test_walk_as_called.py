"""docs/walk.md as `lease` walks it: recorded calls of a run on an ssh box, and of giving the box up."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.calls import Calls, recorded, take
from tests.support.front import ONE_SYSTEM, Front, front
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh

ROOT = Path(__file__).resolve().parents[3]
HOP = re.compile(r"^(\d+)\. `([\w/]+\.py:[\w.]+)`", re.MULTILINE)
ON_THE_BOX = "caretaker/"
LEASE = "ssh-box-1"

TRAINS = """
import json, os
print("step 1/1 loss 0.5", flush=True)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""

# A later room calls into an earlier one only through what it was given: a report, a question, an iterator, a stream.
GIVEN = {
    "api/ending.py:down.<locals>.approve",
    "lifecycle/move/moving.py:Moving.lay",
    "lifecycle/move/moving.py:Moving.leaves",
    "lifecycle/project/code_tree.py:CodeTree.changed",
    "lifecycle/project/code_tree.py:CodeTree.read",
    "lifecycle/results/bring_home.py:_Promises.check",
    "lifecycle/results/bring_home.py:_Promises.complete",
    "lifecycle/results/result_folders.py:Folders.check_room",
    "lifecycle/run/run_job.py:_first_line.<locals>.listen",
    "platforms/code_stream.py:blob_stream",
    "platforms/code_stream.py:list_stream",
    "shells/cli/output.py:Screen.report",
    "shells/cli/screens/teardown_screen.py:show_teardown",
    "transport/wire.py:_Clocked.readinto",
    "transport/wire.py:_Resumed.readinto",
}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far") as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    """Somebody who has run a job on the box before: the next command calls it ahead."""
    with front(tmp_path, bed.environment) as person:
        person.write("train.py", TRAINS)
        person.job()
        first = person.lease("run", "--on", "ssh:box")
        assert first.code == 0, first.said
        person.environment = recorded(tmp_path / "calls", person.environment)
        yield person


def test_a_run_and_its_end_are_walked_as_the_page_says(me: Front, bed: SshBed, tmp_path: Path) -> None:
    records = tmp_path / "calls"
    me.write("train.py", TRAINS + "# changed\n")
    done = me.lease("run", "--on", "ssh:box")
    assert done.code == 0, done.said
    run = take(records)
    screen = Session(me, "unused")
    screen.type(f"lease down {LEASE} {ONE_SYSTEM[0]} '{ONE_SYSTEM[1]}'", ("type exactly", f"stop-by-hand {LEASE}"))
    down = take(records)
    bed.box.stop()
    screen.type(f"lease down {LEASE} --stopped", ("type exactly", f"stopped {LEASE}"))
    stopped = take(records)

    hops = [hop for _, hop in HOP.findall((ROOT / "docs/walk.md").read_text(encoding="utf-8"))]
    begins_down = hops.index("api/ending.py:down")
    assert called(hops[:begins_down], run) == at_home(hops[:begins_down])
    assert called(hops[begins_down:-1], down) == at_home(hops[begins_down:-1])
    assert called(hops[-1:], stopped) == hops[-1:]
    for record in (run, down, stopped):
        assert {callee for caller, callee in record.edges if is_up(caller, callee)} <= GIVEN


def at_home(hops: list[str]) -> list[str]:
    return [hop for hop in hops if not hop.startswith(ON_THE_BOX)]


def called(hops: list[str], record: Calls) -> list[str]:
    """Return those of the hops that were called, in the order of their first calls."""
    return [call for call in record.first if call in at_home(hops)]


# ---------------------------------------------------------------- floors


def _floors() -> dict[str, dict[str, int]]:
    """Read the layers of each room: its members with their floors, 0 at the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    found: dict[str, dict[str, int]] = {}
    for contract in contracts["contracts"]:
        if contract["type"] == "layers" and contract.get("exhaustive"):
            names = {
                name.strip(" ()"): floor
                for floor, row in enumerate(contract["layers"])
                for name in re.split(r"[|:]", row)
            }
            found.update((room, names) for room in contract["containers"])
    return found


FLOORS = _floors()


def is_up(caller: str, callee: str) -> bool:
    """Return whether a call goes to a room on a higher floor, where the two part."""
    ours, theirs = (["leasehold", *name.partition(".py:")[0].split("/")] for name in (caller, callee))
    depth = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), 0)
    floors = FLOORS.get(".".join(ours[:depth]), {})
    return floors.get(theirs[depth], 99) < floors.get(ours[depth], -1)


def test_floors_tell_up_from_down() -> None:
    assert is_up("transport/wire.py:Wire.ask", "lifecycle/run/run_job.py:run_through")
    assert is_up("lifecycle/results/verify.py:write_receipt", "lifecycle/run/run_job.py:run_through")
    assert not is_up("lifecycle/run/run_job.py:run_through", "transport/wire.py:Wire.ask")
    assert not is_up("lifecycle/run/run_job.py:run_through", "lifecycle/run/stop.py:stop_run")
