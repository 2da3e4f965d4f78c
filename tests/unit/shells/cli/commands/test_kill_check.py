"""`lease check smoke --kill-check` reads whether a killed smoke continued; exit 0 alone proves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front

STEPS = 6
pytestmark = pytest.mark.full  # each of these is several processes

HEAD = """
import json, os, time
out = os.environ["LEASE_OUT"]
saved = os.path.join(out, "at")
last = int(open(saved).read()) if os.path.exists(saved) else 0
def save(n):
    with open(saved + ".new", "w") as file:
        file.write(str(n))
    os.replace(saved + ".new", saved)
def work():
    time.sleep(0.05)
"""
TAIL = "\njson.dump({'loss': 0.5}, open(os.path.join(out, 'result.json'), 'w'))\n"
CONTINUES = HEAD + "for n in range(last + 1, 7):\n    print(f'step {n}/6', flush=True); work(); save(n)\n" + TAIL
FROM_ZERO = HEAD + "for n in range(6):\n    print(f'step {n}/6', flush=True); work(); save(n)\n" + TAIL
BOASTS = FROM_ZERO.replace("for n", "if last: print('found a checkpoint at step', last)\nfor n", 1)
SAVES_NOT = HEAD + "for n in range(6):\n    print(f'step {n}/6', flush=True); work()\n" + TAIL
SILENT = HEAD + "for n in range(last + 1, 7):\n    work(); save(n)\n" + TAIL
EPOCHS = (
    HEAD + "for n in range(last + 1, 7):\n"
    "    for k in range(1, 4): print(f'epoch {n} step {k}/3', flush=True); work()\n"
    "    save(n)\n" + TAIL
)
BREAKS = CONTINUES.replace("for n", "if last: raise SystemExit(4)\nfor n", 1)
OURS = (
    HEAD + "from leasehold.checkpoint import Checkpointer\n"
    "with Checkpointer(total=6) as ckpt:\n"
    "    state = ckpt.restore(model={'w': 1})\n"
    "    for step in range(state.step, 6):\n"
    "        work(); ckpt.step(step)\n" + TAIL
)
OURS_FROM_ZERO = OURS.replace("range(state.step, 6)", "range(6)")


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job whose smoke is the script itself."""
    with front(tmp_path) as person:
        person.job(smoke="python3 train.py")
        yield person


@pytest.mark.parametrize(
    "script, words",
    [
        (CONTINUES, "it continued and finished: first step 1 in the first run, first step "),
        (EPOCHS, "it continued and finished: first epoch 1 in the first run, first epoch "),
        (OURS, "it continued and finished: its Checkpointer restored step "),
    ],
    ids=["steps", "epochs", "our Checkpointer"],
)
def test_a_smoke_that_continues_passes_and_the_evidence_is_named(me: Front, script: str, words: str) -> None:
    me.write("train.py", script)
    done = me.lease("check", "smoke", "--kill-check")
    assert done.code == 0, done.said
    assert done.out == "smoke: passed\n"
    assert words in done.said


@pytest.mark.parametrize(
    "script, words, hint",
    [
        (FROM_ZERO, "finished, but nothing shows that it continued: first step of the second run was 0", "load the"),
        (BOASTS, "finished, but nothing shows that it continued: first step of the second run was 0", "load the"),
        (SAVES_NOT, "first step of the second run was 0", "no file was written before the kill"),
        (OURS_FROM_ZERO, "yet first step of the second run was 1", "range(state.step, steps)"),
        (BREAKS, "and started again, it did not finish: exit 4", "load the"),
    ],
    ids=["from zero", "boasts", "saves not", "ignores what was restored", "breaks"],
)
def test_a_smoke_that_does_not_continue_is_refused(me: Front, script: str, words: str, hint: str) -> None:
    me.write("train.py", script)
    done = me.lease("check", "smoke", "--kill-check")
    assert done.code == 3, done.said
    assert done.out == "smoke: refused\n"
    assert words in done.said and hint in done.said
    assert "continued and finished" not in done.said
    assert not me.events("smoke_passed")


def test_json_says_the_same(me: Front) -> None:
    me.write("train.py", FROM_ZERO)
    done = me.lease("check", "smoke", "--kill-check", "--json")
    assert done.code == 3, done.said
    verdict = json.loads(done.out)
    assert verdict["outcome"] == "refused"
    (finding,) = [one for one in verdict["findings"] if one["outcome"] != "passed"]
    assert finding["what"].endswith("nothing shows that it continued: first step of the second run was 0")


def test_a_smoke_that_prints_no_step_is_unknown(me: Front) -> None:
    me.write("train.py", SILENT)
    done = me.lease("check", "smoke", "--kill-check")
    assert done.code == 0, done.said
    assert done.out == "smoke: unknown\n"
    assert "nothing shows that it continued: no step or epoch was read in the first run" in done.said


def test_without_the_check_a_smoke_that_starts_at_zero_passes(me: Front) -> None:
    me.write("train.py", FROM_ZERO)
    assert me.lease("check", "smoke").out == "smoke: passed\n"
