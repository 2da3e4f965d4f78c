"""A tracker's key is checked on the box before anything is launched, and its value stays out of everything."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import ssh_bed
from tests.support.front import LEASE, Front, front
from tests.support.lives import eventually
from tests.support.who_server import WhoServer, who_server

KEY = "wandb-key-4f1d0c9be7a2483d95c6"
BASIC = base64.b64encode(f"api:{KEY}".encode()).decode()
WRITE = (
    "import json, os\nprint('step 1/1 loss 0.5', flush=True)\n"
    "json.dump({'seen': bool(os.environ.get('WANDB_API_KEY'))}, "
    "open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
)


@pytest.fixture
def server() -> Iterator[WhoServer]:
    """Give a Weights & Biases that knows one key."""
    with who_server() as running:
        running.accepts = f"Basic {BASIC}"
        running.answer = {"data": {"viewer": {"entity": "ada", "username": "ada"}}}
        yield running


@pytest.fixture
def me(tmp_path: Path, server: WhoServer) -> Iterator[Front]:
    """Give a person whose job names the tracker's key."""
    with front(tmp_path, {"no_proxy": "*"}) as person:
        person.write("train.py", WRITE)
        job(person, server)
        yield person


def job(me: Front, server: WhoServer, **change: object) -> None:
    me.job(secrets=["WANDB_API_KEY"], **{"env": {"WANDB_BASE_URL": server.url}, **change})


def nowhere(me: Front) -> None:
    """Look into every file that this life wrote, at home and on the box."""
    for path, data in written(me.folder):
        assert KEY.encode() not in data and BASIC.encode() not in data, path


def written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Give every file below a folder with what is in it; a caretaker about to leave may still take some away."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()


def env_findings(me: Front) -> list[str]:
    return [one["what"] for event in me.events("gate_judged") if event["gate"] == "env" for one in event["findings"]]


def test_a_good_key_passes_with_its_account_and_leaves_no_trace(me: Front, server: WhoServer) -> None:
    done = me.lease("run", WANDB_API_KEY=KEY)
    assert done.code == 0, done.said
    assert "env: passed (1 check)" in done.said
    assert env_findings(me) == ["WANDB_API_KEY: accepted, account ada (Weights & Biases)"]
    assert len(server.seen) == 1
    assert KEY not in done.said + done.out
    nowhere(me)


def test_a_bad_key_is_refused_before_anything_is_launched(me: Front, server: WhoServer) -> None:
    server.accepts = "Basic of somebody else"
    done = me.lease("run", WANDB_API_KEY=KEY)
    assert done.code == 3, done.said
    assert "error[env.refused]: the env gate refused; nothing was launched" in done.said
    assert "seen: WANDB_API_KEY: Weights & Biases does not accept it (127.0.0.1 answered 401)" in done.said
    assert "hint: it was taken from WANDB_API_KEY in your environment; get a new one at https://wandb.ai" in done.said
    assert me.runs_on_box() == []
    assert KEY not in done.said
    nowhere(me)


def test_a_bad_key_is_refused_before_a_long_setup_too(me: Front, server: WhoServer) -> None:
    job(me, server, setup=f"touch '{me.folder}/was-set-up'")
    server.accepts = "Basic of somebody else"
    done = me.lease("run", WANDB_API_KEY=KEY)
    assert done.code == 3, done.said
    assert not (me.folder / "was-set-up").exists()


def test_a_tracker_out_of_reach_is_unknown_and_does_not_stand_in_the_way(me: Front, server: WhoServer) -> None:
    server.raw = (503, {}, b"")
    done = me.lease("run", WANDB_API_KEY=KEY)
    assert done.code == 0, done.said
    assert "env: unknown" in done.said
    assert env_findings(me) == ["WANDB_API_KEY: 127.0.0.1 answered 503, so it was not checked (Weights & Biases)"]


def test_offline_is_honoured_and_said(me: Front, server: WhoServer) -> None:
    job(me, server, env={"WANDB_BASE_URL": server.url, "WANDB_MODE": "offline"})
    done = me.lease("check", "env", WANDB_API_KEY=KEY)
    assert done.code == 0, done.said
    assert "ok  WANDB_API_KEY: not asked, for WANDB_MODE=offline (Weights & Biases)" in done.said
    assert server.seen == []


def test_the_gate_alone_says_when_the_key_is_not_here(me: Front, server: WhoServer) -> None:
    done = me.lease("check", "env")
    assert done.code == 0, done.said
    assert "?   WANDB_API_KEY is not in your environment, so it was not checked" in done.said
    assert server.seen == []


def test_the_key_is_in_no_command_line_and_in_no_strangers_environment(me: Front, server: WhoServer) -> None:
    server.hang.clear()
    asked = subprocess.Popen(
        [*LEASE, "check", "env"], cwd=me.project, env={**me.environment, "WANDB_API_KEY": KEY},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert eventually(lambda: len(server.seen) == 1)
        lines, asking = {}, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
                if lines[pid].endswith(b"\0whoami\0"):
                    asking.append(Path(f"/proc/{pid}/environ").read_bytes())
            except OSError:
                continue
        assert not [pid for pid, line in lines.items() if KEY.encode() in line]
        assert any(server.url.encode() in environ for environ in asking)
        assert not any(KEY.encode() in environ for environ in asking)
    finally:
        server.hang.set()
        said = asked.communicate(timeout=60)
    assert asked.returncode == 0, said
    assert KEY.encode() not in b"".join(said)


def test_a_secret_that_an_import_quotes_does_not_reach_journal_or_ledger(me: Front, server: WhoServer) -> None:
    lib = me.folder / "lib" / "torch"
    lib.mkdir(parents=True)
    (lib / "__init__.py").write_text("import os\nraise RuntimeError('bad ' + os.environ['WANDB_API_KEY'])\n")
    me.write("train.py", "import torch\n" + WRITE)
    job(
        me,
        server,
        setup="true",
        run="python3 -S train.py",
        env={"WANDB_BASE_URL": server.url, "PYTHONPATH": str(lib.parent)},
    )
    done = me.lease("run", WANDB_API_KEY=KEY)
    assert done.code == 6, done.said
    assert "cannot import torch: RuntimeError: bad <WANDB_API_KEY>*" in done.said
    assert KEY not in done.said
    nowhere(me)


@pytest.mark.real_ssh
def test_a_box_behind_ssh_asks_by_itself_and_judges_after_its_setup(tmp_path: Path, server: WhoServer) -> None:
    with ssh_bed(tmp_path) as bed, front(tmp_path / "person", {**bed.environment, "no_proxy": "*"}) as me:
        me.write("train.py", WRITE)
        job(me, server, setup="echo installing", env={"WANDB_BASE_URL": server.url, "no_proxy": "*"})
        done = me.lease("run", *bed.on, WANDB_API_KEY=KEY)
        assert done.code == 0, done.said
        assert env_findings(me)[0] == "WANDB_API_KEY: accepted, account ada (Weights & Biases)"
        assert "env after set-up: passed" in done.said
        outcomes = [event["outcome"] for event in me.events("gate_judged") if event["gate"] == "env"]
        assert outcomes == ["passed", "passed"]  # before the launch, and after the set-up
        assert KEY not in done.said + done.out
        nowhere(me)
        for path, data in written(bed.root):
            assert KEY.encode() not in data, path
