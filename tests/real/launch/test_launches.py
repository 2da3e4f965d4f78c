"""What a launch promises, on a real box: every gate passed or its skip on record, secrets kept, set-up done once."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.frameworks import python_with
from tests.support.front import Front, fake_cards, front
from tests.support.lives import eventually, kill

VALUE = "correct-horse-battery-staple-7f3a"
FAILS = "import os, time\nraise ValueError('no such dataset')\n"

# Says its first line, then waits for the test's word: nothing here depends on how fast anything is.
WAITS = """
import json, os, time
print("step 1/1 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
json.dump({"seen": bool(os.environ.get("TOKEN"))}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""

NUMPY = """
import json, os
import numpy as np

out, rng = os.environ["LEASE_OUT"], np.random.default_rng(1)
state = os.path.join(out, "state.npz")
step, w = (int(np.load(state)["step"]), np.load(state)["w"]) if os.path.exists(state) else (0, np.zeros(4))
x = rng.normal(size=(64, 4)); y = x @ np.arange(4.0)
while step < 20:
    loss = float(np.mean((x @ w - y) ** 2))
    w -= 0.1 * 2 * x.T @ (x @ w - y) / len(x)
    step += 1
    np.savez(state, step=step, w=w)
    print(f"step {step}/20 loss {loss:.4f}", flush=True)
np.save(os.path.join(out, "w.npy"), w)
json.dump({"loss": loss}, open(os.path.join(out, "metrics.json"), "w"))
"""

TORCH = """
import os
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
for step in range(int(os.environ.get("STEPS", "20"))):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(f"step {step + 1}/20 loss {loss.item():.4f}", flush=True)
torch.save({"model": model.state_dict(), "step": step}, os.path.join(os.environ["LEASE_OUT"], "last.pt"))
"""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose trainer waits for the file that $GO names."""
    with front(tmp_path, {"GO": str(tmp_path / "go")}) as person:
        person.write("train.py", WAITS)
        person.job()
        yield person


def go(me: Front) -> None:
    (me.folder / "go").touch()


# ---------------------------------------------------------------- every gate


def test_a_numpy_job_passes_every_gate_and_comes_home(me: Front) -> None:
    pytest.importorskip("numpy")
    me.write("train.py", NUMPY)
    promises = {"w.npy": "npy", "state.npz": {"loads": "npz", "keys": ["step", "w"]}, "metrics.json": "json"}
    python = f"{shlex.quote(sys.executable)} train.py"  # the one that has numpy
    me.job(run=python, smoke=python, artifacts=promises, checkpoint={"size": "1MB"})
    done = me.lease("run")
    assert done.code == 0, done.said
    assert me.gates() == {"smoke": "passed", "plan": "passed", "audit": "passed", "env": "passed", "launch": "passed"}
    assert "every artifact loads: 1 json, 1 npy, 1 npz" in done.said
    assert (Path(done.out.strip()) / "cells" / "main" / "w.npy").stat().st_size > 0
    for gate in ("audit", "env", "smoke"):
        assert me.lease("check", gate).out == f"{gate}: passed\n"
    assert me.lease("check", "launch", "toy").out == "launch: passed\n"


@pytest.mark.full
def test_a_torch_job_passes_every_gate_and_comes_home(me: Front) -> None:
    python = python_with("torch")
    me.write("train.py", TORCH)
    promise = {"last.pt": {"loads": "torch", "keys": ["model", "step"]}}
    me.job(run=f"{python} train.py", smoke=f"STEPS=2 {python} train.py", artifacts=promise)
    done = me.lease("run")
    assert done.code == 0, done.said
    assert me.gates() == {"smoke": "passed", "plan": "passed", "audit": "passed", "env": "passed", "launch": "passed"}
    assert "every artifact loads: 1 torch" in done.said


# ---------------------------------------------------------------- the launch probe


def test_a_trainer_that_starts_with_a_traceback_is_reported(me: Front) -> None:
    me.write("train.py", FAILS)
    done = me.lease("run", "--detach")
    assert done.code == 3, done.said
    assert "started badly; it is still on the box" in done.said
    assert "a traceback" in done.said
    assert "hint: lease doctor toy-" in done.said
    assert me.gates()["launch"] == "refused"
    alone = me.lease("check", "launch", "toy")
    assert alone.code == 3
    assert "NO  a traceback: ValueError: no such dataset" in alone.said


def test_a_trainer_that_is_gone_at_once_is_not_left_alone_either(me: Front) -> None:
    me.job(run="exit 3")
    done = me.lease("run", "--detach")
    assert done.code == 3, done.said
    assert "the trainer is gone" in done.said


def test_a_trainer_that_speaks_is_left_running(me: Front) -> None:
    done = me.lease("run", "--detach")
    assert done.code == 0, done.said
    assert "detached; the run continues on the box" in done.said
    assert me.lease("check", "launch", "toy").code == 0
    go(me)
    assert me.lease("watch", "toy").code == 0


# ---------------------------------------------------------------- skipping


def test_a_skipped_gate_is_recorded_with_its_reason(me: Front, tmp_path: Path) -> None:
    me.write("train.py", FAILS)
    me.job(resources={"gpu": {"name": "H100"}}, smoke="false")
    skipped = ("--skip-gate", "audit", "--skip-gate", "smoke", "--skip-gate", "launch", "--because", "the card is odd")
    done = me.lease("run", "--detach", *skipped, **fake_cards(tmp_path, "Tesla T4, 15360"))
    assert done.code == 0, done.said
    assert "gate audit was skipped because: the card is odd" in done.said
    recorded = {event["gate"]: (event["skipped"], event.get("because")) for event in me.events("gate_judged")}
    assert recorded.pop("env")[0] is False
    assert recorded.pop("plan")[0] is False
    assert recorded == dict.fromkeys(("audit", "smoke", "launch"), (True, "the card is odd"))


@pytest.mark.parametrize(
    "words, code",
    [
        (["--skip-gate", "audit"], "gate.no_reason"),
        (["--skip-gate", "audit", "--because", "  "], "gate.no_reason"),
        (["--skip-gate", "teardown", "--because", "in a hurry"], "gate.unskippable"),
        (["--skip-gate", "verify", "--because", "in a hurry"], "gate.unskippable"),
    ],
)
def test_a_skip_needs_a_reason_and_what_protects_data_cannot_be_skipped(me: Front, words: list[str], code: str) -> None:
    done = me.lease("run", *words)
    assert done.code == 2
    assert f"error[{code}]" in done.said
    assert me.runs_on_box() == []
    assert me.events() == []


# ---------------------------------------------------------------- secrets


def holders(value: str, folders: list[Path]) -> list[Path]:
    """List the files below these folders that hold a value."""
    found = []
    for folder in folders:
        for where, _, names in os.walk(folder):
            found += [Path(where, name) for name in names if value.encode() in content(Path(where, name))]
    return found


def content(path: Path) -> bytes:
    """Read a file; one that was replaced or removed meanwhile has none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def command_lines() -> bytes:
    texts = []
    for pid in processes.snapshot():
        try:
            texts.append(Path("/proc", str(pid), "cmdline").read_bytes())
        except OSError:
            continue
    return b"\n".join(texts)


def test_a_secret_is_in_one_private_file_while_it_runs_and_then_nowhere(me: Front) -> None:
    me.job(secrets=["TOKEN"])
    assert me.lease("run", "--detach", TOKEN=VALUE).code == 0
    (run,) = me.runs_on_box()
    (file,) = holders(VALUE, [me.folder])
    assert file == me.box_root / "secrets" / f"{run}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert VALUE.encode() not in command_lines()
    go(me)
    done = me.lease("run", TOKEN=VALUE)
    assert done.code == 0, done.said
    assert json.loads((Path(done.out.strip()) / "cells" / "main" / "result.json").read_text()) == {"seen": True}
    assert eventually(lambda: holders(VALUE, [me.folder]) == []), "the caretaker forgets it as it leaves"
    for words in (["show", "toy", "--json"], ["logs", "toy"], ["status", "--json"]):
        shown = me.lease(*words)
        assert VALUE not in shown.out + shown.said


def test_a_missing_secret_is_named_before_anything_starts(me: Front) -> None:
    me.job(secrets=["TOKEN", "OTHER_TOKEN"], smoke="false")
    done = me.lease("run", TOKEN=VALUE, OTHER_TOKEN="")
    assert done.code == 2, done.said
    assert "error[secret.missing]: the job needs OTHER_TOKEN, and your environment does not have it" in done.said
    assert "hint: export OTHER_TOKEN=" in done.said
    assert me.runs_on_box() == []


def test_the_next_attempt_has_the_secret_too(me: Front) -> None:
    me.job(secrets=["TOKEN"])
    assert me.lease("run", "--detach", TOKEN=VALUE).code == 0
    (run,) = me.runs_on_box()
    attempts = me.box_root / "active" / run / "cells" / "main"
    kill([json.loads((attempts / "attempt-0001" / "started.json").read_text())["pid"]])
    assert eventually(lambda: (attempts / "attempt-0002" / "started.json").exists())
    go(me)
    done = me.lease("run", TOKEN=VALUE)
    assert done.code == 0, done.said
    assert json.loads((Path(done.out.strip()) / "cells" / "main" / "result.json").read_text()) == {"seen": True}


# ---------------------------------------------------------------- set-up


def test_setup_runs_once_and_not_again_for_the_next_attempt(me: Front) -> None:
    me.job(setup=f"echo once >> '{me.folder}/setups'; echo installed > here")
    assert me.lease("run", "--detach").code == 0
    (run,) = me.runs_on_box()
    attempts = me.box_root / "active" / run / "cells" / "main"
    assert eventually(lambda: "step 1/1" in (attempts / "attempt-0001" / "log").read_text())
    kill([json.loads((attempts / "attempt-0001" / "started.json").read_text())["pid"]])
    assert eventually(lambda: (attempts / "attempt-0002" / "log").exists())
    go(me)
    assert me.lease("run").code == 0
    assert (me.folder / "setups").read_text() == "once\n"
    assert "leasehold: setup" not in (attempts / "attempt-0002" / "log").read_text()
    assert (me.box_root / "active" / run / "work" / "main" / "here").exists()  # where the trainer runs


def test_a_setup_that_fails_ends_the_run_and_says_so(me: Front) -> None:
    me.job(setup="echo no such package; exit 9")
    done = me.lease("run")
    assert done.code == 6, done.said
    assert "leasehold: setup failed with exit code 9" in done.said
    assert "main: attempt 1 exited with code 9" in done.said
    assert "step 1/1" not in done.said
    me.job(setup="true")
    go(me)
    assert me.lease("run", "--alongside").code == 0  # the mended job is another run


def test_a_setup_killed_halfway_is_run_again(me: Front) -> None:
    """It is done when it has ended well, not when it has begun."""
    me.job(setup=f"echo begun >> '{me.folder}/setups'; echo ready; while [ ! -e \"$GO\" ]; do sleep 0.02; done")
    assert me.lease("run", "--detach").code == 0
    (run,) = me.runs_on_box()
    attempts = me.box_root / "active" / run / "cells" / "main"
    assert eventually(lambda: b"begun" in content(me.folder / "setups"))
    kill([json.loads((attempts / "attempt-0001" / "started.json").read_text())["pid"]])
    assert eventually((attempts / "attempt-0001" / "exit.json").exists), "what it left behind must be gone before"
    go(me)
    assert me.lease("run").code == 0
    assert (me.folder / "setups").read_text() == "begun\nbegun\n"
