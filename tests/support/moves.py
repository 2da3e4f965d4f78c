"""A deterministic trainer that can be held at a step, boxes that it moves between, and a refuge written by hand."""

from __future__ import annotations

import hashlib
import io
import json
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from leasehold.kit.files import journal
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.refuge import epochs
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.publishing import put_pointer, put_state
from leasehold.kit.refuge.reading import Kept
from leasehold.kit.refuge.records import Pointer, State, StateFile
from tests.support.box_book import pasted
from tests.support.front import Front
from tests.support.lives import eventually
from tests.support.sshd import SshBox

EVERY = 5
TRAIN = """
import hashlib, json, os, time
out, side = os.environ["LEASE_OUT"], os.environ["SIDE"]
shelf = os.path.join(out, "checkpoints")
os.makedirs(shelf, exist_ok=True)
names = sorted(name for name in os.listdir(shelf) if name.startswith("step-") and name.endswith(".json"))
state = json.load(open(os.path.join(shelf, names[-1]))) if names else {"step": 0, "sum": ""}
def say(what):
    with open(os.path.join(side, "diary"), "a") as diary:
        diary.write("%s %d %s\\n" % (what, state["step"], os.environ.get("LEASE_ATTEMPT")))
say("start")
steps, hold = int(os.environ["STEPS"]), os.path.join(side, "hold")
def held():
    try:
        return state["step"] >= int(open(hold).read() or 0)
    except FileNotFoundError:
        return False
def last():
    try:
        return min(steps, int(open(os.path.join(side, "finish")).read()))
    except (FileNotFoundError, ValueError):
        return steps
while state["step"] < last():
    while held():
        open(os.path.join(side, "holding-%d" % state["step"]), "w").close()
        time.sleep(0.01)
    time.sleep(float(os.environ.get("STEP_S", "0")))
    step = state["step"] + 1
    state = {"step": step, "sum": hashlib.sha256(("%s %d" % (state["sum"], step)).encode()).hexdigest()}
    say("step")
    print("step %d/%d loss %.4f" % (step, steps, 1.0 / step), flush=True)
    if step % EVERY == 0:
        path = os.path.join(shelf, "step-%06d.json" % step)
        json.dump(state, open(path + ".tmp", "w"))
        os.replace(path + ".tmp", path)
say("end")
json.dump(state, open(os.path.join(out, "result.json"), "w"), sort_keys=True)
""".replace("EVERY", str(EVERY))


def sums(steps: int) -> List[Dict[str, Any]]:
    """Return the state after each step, as an undisturbed trainer has it."""
    state: Dict[str, Any] = {"step": 0, "sum": ""}
    found = [state]
    for step in range(1, steps + 1):
        state = {"step": step, "sum": hashlib.sha256(("%s %d" % (state["sum"], step)).encode()).hexdigest()}
        found.append(state)
    return found


class Mover:
    """A person with a job that moves, and what its trainers did."""

    def __init__(self, person: Front, steps: int = 40, step_s: float = 0.0, **job: Any) -> None:
        self.person = person
        self.steps = steps
        self.side = person.folder / "side"
        self.side.mkdir()
        person.write("train.py", TRAIN)
        env = {"SIDE": str(self.side), "STEPS": str(steps), "STEP_S": str(step_s)}
        saved = "checkpoints/step-*.json"
        wanted = {"checkpoint": {"path": saved, "size": "1MB"}, "scratch": [saved], **job}
        person.job(name="mover", env=env, **wanted)

    def add(self, name: str, box: SshBox, *words: str) -> None:
        """Put a box into the book."""
        add_box(self.person, name, box, *words)

    def add_local(self, name: str) -> None:
        """Put a folder of this machine into the book as a box."""
        done = self.person.lease("box", "add", name, "local", "--root", str(self.person.folder / name))
        assert done.code == 0, done.said

    def hold(self, step: int) -> None:
        """Hold every trainer at a step."""
        write_atomic(str(self.side / "hold"), b"%d" % step)

    def release(self) -> None:
        """Let them go on."""
        (self.side / "hold").unlink(missing_ok=True)

    def held(self, step: int) -> bool:
        """Wait until one is held at a step."""
        return eventually((self.side / ("holding-%d" % step)).exists)

    def begin(self, box: str, step: int) -> str:
        """Start the job on a box and wait until it is held at a step; return the run."""
        self.hold(step)
        done = self.person.lease("run", "--on", box, "--detach")
        assert done.code == 0, done.said
        assert self.held(step), done.said
        return done.out.strip()

    def starts(self) -> List[int]:
        """List the steps at which trainers began, in order."""
        return [step for what, step in self.diary() if what == "start"]

    def diary(self) -> List[Tuple[str, int]]:
        """List what the trainers did, each with its step."""
        path = self.side / "diary"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in lines if len(line.split()) == 3]

    def reached(self) -> int:
        """Return the step that the newest trainer has reached."""
        return next((step for _, step in reversed(self.diary())), 0)

    def finish_at(self, step: int) -> None:
        """Let the trainer end after this step."""
        write_atomic(str(self.side / "finish"), b"%d" % step)
        self.release()

    def result(self) -> Dict[str, Any]:
        """Read the verified result at home."""
        found = sorted((self.person.project / "lease-results" / "export").glob("mover-*/cells/main/result.json"))
        return dict(json.loads(found[-1].read_text()))

    def receipt(self) -> Dict[str, Any]:
        """Read the receipt at home."""
        found = sorted((self.person.project / "lease-results" / "export").glob("mover-*/receipt.json"))
        return dict(json.loads(found[-1].read_text()))


def add_box(person: Front, name: str, box: SshBox, *words: str) -> None:
    """Put a box into a person's book."""
    done = person.lease("box", "add", name, pasted(box), *words)
    assert done.code == 0, done.said


def events(box: SshBox, *kinds: str) -> List[Dict[str, Any]]:
    """Read events of these kinds from the journals of a box's runs."""
    return local_events(box.home / ".leasehold", *kinds)


def local_events(root: Path, *kinds: str) -> List[Dict[str, Any]]:
    """Read events of these kinds from the journals below a root."""
    found: List[Dict[str, Any]] = []
    for path in sorted((root / "active").glob("mover-*/journal.jsonl")):
        found += journal.read_from(str(path), 0)[0]
    return [event for event in found if not kinds or event["k"] in kinds]


def keep(
    place: Path, run: str, step: int, epoch: int = 1, made_unix: Optional[float] = None, cell: str = "main"
) -> Kept:
    """Publish a state in a refuge as the box's copier does: claim, files, manifest, pointer."""
    place.mkdir(parents=True, exist_ok=True)
    folder = FolderPlace(str(place))
    epochs.claim(folder, run, epochs.Claim(epoch, "nonce-of-epoch-%d" % epoch))
    data = json.dumps(sums(step)[step]).encode()
    file = StateFile("step-%06d.json" % step, len(data), hashlib.sha256(data).hexdigest())
    made = time.time() if made_unix is None else made_unix
    state = State(run, cell, epoch, "far", 1, step, step, round(made, 3), made, "file", "checkpoints", (file,))
    kept = put_state(folder, state, lambda one: io.BytesIO(data))
    pointer = Pointer(epoch, kept.id, kept.manifest_sha256, step, state.made_unix, state.copied_unix)
    put_pointer(folder, run, cell, pointer)
    return kept
