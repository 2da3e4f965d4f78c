"""python -m bench.move_loop [MOVES]: move one run to and fro with random kills; no step is lost, the end is the same.

Each round kills the home at a random moment of the move, or the trainer or the caretaker before it, and types the same
command until it succeeds. The trainer is deterministic, so its result must equal that of an undisturbed run.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support import processes
from tests.support.front import LEASE, front
from tests.support.lives import eventually
from tests.support.moves import EVERY, Mover, local_events, sums

_NO_SMOKE = ("--skip-gate", "smoke", "--because", "a loop of moves")
_STEP_S = 0.02
_LONGEST_MOVE_S = 12.0


def loop(folder: Path, moves: int, chance: random.Random) -> Counter[str]:
    """Move so often; return what was killed. An AssertionError names what was lost."""
    killed: Counter[str] = Counter()
    with front(folder) as person:
        mover = Mover(person, steps=10**6, step_s=_STEP_S)
        boxes = ("a", "b")
        for name in boxes:
            mover.add_local(name)
        mover.hold(3)
        done = person.lease("run", "--on", "a", "--detach", *_NO_SMOKE)
        assert done.code == 0, done.said
        for number in range(moves):
            here, there = boxes[number % 2], boxes[(number + 1) % 2]
            _let_it_go(mover, mover.reached() + chance.randrange(1, 4 * EVERY))
            killed[_disturb(folder / here, chance)] += 1
            killed["home"] += _move(mover, there, chance)
            assert mover.starts()[-1] % EVERY == 0
        _check(mover, folder, moves)
    return killed


def _let_it_go(mover: Mover, step: int) -> None:
    """Let the trainer work up to a step, and hold it there."""
    mover.hold(step)
    assert eventually(lambda: mover.reached() >= step), f"it stands still at {mover.reached()}"


def _disturb(root: Path, chance: random.Random) -> str:
    """Kill the trainer or the caretaker on the box that will be left, or nobody."""
    victim = chance.choice(("nobody", "trainer", "caretaker"))
    (lock,) = (root / "active").glob("*/caretaker.lock")
    words, events = lock.read_text().split(), local_events(root, "attempt_started")
    pids = {"nobody": [], "caretaker": [int(words[0])] if words else [], "trainer": [int(events[-1]["pid"])]}
    processes.send(pids[victim], signal.SIGKILL)
    return victim


def _move(mover: Mover, to: str, chance: random.Random) -> int:
    """Move, killing the home on the way with some chance; the identical command goes on."""
    words = [*LEASE, "move", "mover", "--to", to, "--detach", "--grace", "5s", *_NO_SMOKE]
    kills = 0
    for _ in range(20):
        child = subprocess.Popen(
            words, cwd=mover.person.project, env=mover.person.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = child.communicate(timeout=chance.uniform(0.2, _LONGEST_MOVE_S) if chance.random() < 0.4 else None)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            kills += 1
            continue
        if child.returncode == 0:
            return kills
        assert child.returncode in (4, 5), said.decode("utf-8", "replace")  # the box was being disturbed
    raise AssertionError(f"the move to {to} did not succeed: {said.decode('utf-8', 'replace')}")


def _check(mover: Mover, folder: Path, moves: int) -> None:
    """Every start lies within one cadence of the work before it; the result is that of an undisturbed run."""
    last = 0
    for what, step in mover.diary():
        if what == "start":
            assert step >= last - EVERY, f"the step counter fell from {last} to {step}"
        last = max(last, step)
    final = last + EVERY
    mover.finish_at(final)
    done = mover.person.lease("run", "--on", ("a", "b")[moves % 2], *_NO_SMOKE)
    assert done.code == 0, done.said
    assert mover.result() == sums(final)[final]


def main() -> int:
    """Run the loop and print what was killed."""
    moves = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leasehold-moves-") as place:
        killed = loop(Path(place), moves, random.Random(seed))
    print(f"{moves} moves, seed {seed}: no work lost beyond {EVERY} steps, the result is bit-equal; {dict(killed)}; ")
    print(f"{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
