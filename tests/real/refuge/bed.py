"""A trainer that saves steps, on this machine as a box, with a durable tier of its own: what leaves the box is read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leasehold.kit.files import journal
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import Kept, newest_state, verify
from tests.support.front import Front

TRAINER = """
import json, os, sys, time
out = os.environ["LEASE_OUT"]
os.makedirs(out + "/ckpt", exist_ok=True)
last, pause, pad = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
there = sorted(int(name[5:-5]) for name in os.listdir(out + "/ckpt") if name.startswith("step-"))
first = there[-1] + 1 if there else 1
print("starting at step", first, flush=True)
for step in range(first, last + 1):
    time.sleep(pause)
    print("step %d/%d loss %.3f" % (step, last, 1 / step), flush=True)
    path = out + "/ckpt/step-%06d.json" % step
    with open(path + ".tmp", "w") as file:
        json.dump({"step": step, "pad": "x" * pad}, file)
    os.replace(path + ".tmp", path)
    old = out + "/ckpt/step-%06d.json" % (step - 2)
    if os.path.exists(old):
        os.unlink(old)
with open(out + "/result.json", "w") as file:
    json.dump({"steps": last}, file)
"""
PATIENCE_S = 90.0


class Bed:
    """One person, one run, one tier."""

    def __init__(self, person: Front) -> None:
        self.me = person
        self.tier = person.folder / "tier"
        self.tier.mkdir()
        person.write("train.py", TRAINER)

    def launch(self, last: int = 100000, pause_s: float = 0.1, pad: int = 10, **checkpoint: Any) -> None:
        """Start the run detached, and name its tier to it."""
        told = {"path": "ckpt/step-*.json", "every": "1s", **checkpoint}
        self.me.job(run=f"python3 -I -S train.py {last} {pause_s} {pad}", checkpoint=told)
        done = self.me.lease("run", "--detach")
        assert done.code == 0, done.said
        self.name_tier(self.tier)

    def name_tier(self, tier: Path) -> None:
        """Do what home does when it connects: tell the box of its durable tier."""
        value = {"durable": str(tier), "durable_is_folder": True}
        (self.folder / "environment.json").write_text(json.dumps(value))

    @property
    def folder(self) -> Path:
        [found] = (self.me.box_root / "active").iterdir()
        return found

    @property
    def run(self) -> str:
        return self.folder.name

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        found, _ = journal.read_from(str(self.folder / "journal.jsonl"), 0)
        return [event for event in found if not kind or event["k"] == kind]

    def until(self, what: Callable[[], Any], limit_s: float = PATIENCE_S) -> Any:
        """Wait until something holds."""
        give_up = time.monotonic() + limit_s
        while time.monotonic() < give_up:
            found = what()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {limit_s} s; the journal: {self.events()[-12:]}")

    def event(self, kind: str, number: int = 1) -> dict[str, Any]:
        """Wait for so many events of a kind; return the last of them."""
        found: list[dict[str, Any]] = self.until(lambda: self.events(kind)[number - 1 : number])
        return found[0]

    def newest(self) -> Kept | None:
        """Read what a newcomer finds in the tier."""
        return newest_state(FolderPlace(str(self.tier)), self.run, "main")

    def whole(self, kept: Kept) -> bool:
        """Return whether a state's files are all there, every byte."""
        return not verify(FolderPlace(str(self.tier)), kept)

    def stop(self) -> None:
        """End the run."""
        done = self.me.lease("stop", self.run, "--grace", "1")
        assert done.code == 0, done.said
