"""Whoever still writes below a run's folder: nobody does beside a new attempt, at the seal, or when the box goes."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from leasehold.kit.files import journal
from leasehold.kit.run.run_state import RunState, fold
from tests.support import processes
from tests.support.beds import local_bed
from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import TRAINER, Life, eventually, kill
from tests.support.screens import Session

WRITER = TRAINER.with_name("stray_writer.py")

# Attempt 1 leaves a worker as docker, `sudo -i` or an old tmux server do: no mark, no group, no terminal, no log.
LEAVES_ONE = (
    'if [ "$LEASE_ATTEMPT" = 1 ]; then env -i setsid %(python)s -I -S %(writer)s %(mode)s "$LEASE_OUT/rows" '
    '"$SIDE/worker" </dev/null >/dev/null 2>&1 9>&- & fi; '
    'while [ ! -e "$SIDE/worker" ]; do sleep 0.02; done; '
    'if [ "$LEASE_ATTEMPT" != 1 ]; then kill -0 $(cat "$SIDE/worker") 2>/dev/null && : > "$SIDE/two"; fi; '
    "exec python3 -I -S train.py"
)


def leaves_one(mode: str) -> str:
    return LEAVES_ONE % {"python": sys.executable, "writer": WRITER, "mode": mode}


def worker(life: Life) -> int:
    return int((life.side / "worker").read_text())


def alive(pid: int) -> bool:
    return pid in processes.snapshot()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Give a function that begins a life whose first attempt leaves a worker; ends the worker by its pid."""
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(local_bed(tmp_path))

        def make(mode: str) -> Life:
            life = Life(bed, tmp_path / "life", job={"run": leaves_one(mode)})
            stack.callback(life.close)

            def end_worker() -> None:
                if (life.side / "worker").exists() and alive(worker(life)):
                    processes.send([worker(life)], signal.SIGKILL)

            stack.callback(end_worker)
            return life

        yield make


def go_on(life: Life) -> None:
    """Let the run go on, by the identical command where it does not by itself."""
    life.release()
    assert eventually(lambda: len(life.attempts()) > 1 or life.state().terminal), life.explain()
    assert life.run().wait() == 0, life.explain()


@pytest.mark.parametrize("mode", ["append", "again"])
def test_a_worker_without_a_mark_ends_with_the_attempt_that_started_it(begin: Callable[..., Life], mode: str) -> None:
    life = begin(mode)
    life.run_to_mid_life()
    kill(life.trainer())
    go_on(life)
    assert life.attempts() == [1, 2]
    assert not (life.side / "two").exists(), "attempt 2 began while the worker of attempt 1 wrote"
    assert not alive(worker(life))


def test_an_orphan_of_a_killed_keeper_ends_before_the_next_attempt(begin: Callable[..., Life]) -> None:
    life = begin("again")
    life.run_to_mid_life()
    kill(life.keeper())
    kill(life.trainer())
    go_on(life)
    assert not (life.side / "two").exists(), life.explain()
    assert not alive(worker(life))


def test_an_attempt_waits_for_a_writer_of_unknown_origin(begin: Callable[..., Life]) -> None:
    life = begin("append")
    lease = life.run_to_mid_life()
    caretaker, keeper, trainer = life.caretaker(), life.keeper(), life.trainer()
    processes.send([*caretaker, *keeper], signal.SIGSTOP)  # so that neither looks after the other
    kill([*trainer, *keeper, *caretaker])
    lease.kill()
    life.release()
    second = life.run()
    assert eventually(lambda: any(event["k"] == "occupied" for event in life.events())), life.explain()
    assert life.attempts() == [1]
    assert alive(worker(life)), "a process of unknown origin is nobody's to end"
    assert eventually(lambda: f"pid {worker(life)}" in second.said and "out/main/rows" in second.said), life.explain()
    processes.send([worker(life)], signal.SIGKILL)
    assert second.wait() == 0, life.explain()
    assert life.attempts() == [1, 2]
    assert not (life.side / "two").exists()


# ---------------------------------------------------------------- when the box goes


_TRAIN = """
import json, os
print("step 1/1 loss 0.5", flush=True)
json.dump({"loss": 1}, open(os.path.join(os.environ["LEASE_OUT"], "metrics.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose run on a simulated rental is finished and home."""
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _TRAIN)
        someone.job(artifacts=["metrics.json"])
        done = someone.lease("run", "--rehearse", *NO_SMOKE)
        assert done.code == 0, done.said
        yield someone


def root(person: Front) -> Path:
    return person.home / "boxes" / "rehearsal"


def run_folder(person: Front) -> Path:
    (folder,) = (root(person) / "active").iterdir()
    return folder


@contextlib.contextmanager
def beside(mode: str, path: Path, cwd: Path, note: Path) -> Iterator[int]:
    """Somebody else's process on the box, without a terminal."""
    words = [sys.executable, "-I", "-S", str(WRITER), mode, str(path), str(note)]
    child = subprocess.Popen(words, cwd=cwd, env={}, start_new_session=True)
    try:
        assert eventually(note.exists)
        yield child.pid
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("mode", ["append", "map"])
def test_a_box_with_a_live_writer_is_not_deleted(person: Front, tmp_path: Path, mode: str) -> None:
    out = run_folder(person) / "out" / "main"
    with beside(mode, out / "more", tmp_path, tmp_path / "note") as pid:
        refused = person.lease("down", "toy", "--rehearsal")
        assert refused.code == 3, refused.said
        assert root(person).is_dir(), "nothing was deleted"
        assert f"pid {pid}" in refused.said and "out/main/more" in refused.said
        assert f"lease run harmless {run_folder(person).name} {pid}" in refused.said
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert not root(person).exists()


def by_a_hard_link(person: Front, tmp_path: Path) -> Path:
    other = tmp_path / "other-name"
    os.link(run_folder(person) / "out" / "main" / "metrics.json", other)
    return other


def where_the_folder_was_moved_to(person: Front, tmp_path: Path) -> Path:
    """As somebody does whose disk is full: the folder lies elsewhere, and a link is left in its place."""
    out, elsewhere = run_folder(person) / "out" / "main", tmp_path / "elsewhere"
    shutil.move(str(out), str(elsewhere))
    out.symlink_to(elsewhere)
    return elsewhere / "metrics.json"


@pytest.mark.parametrize("mode", ["append", pytest.param("map", marks=pytest.mark.full)])
@pytest.mark.parametrize("renamed", [by_a_hard_link, where_the_folder_was_moved_to])
def test_a_writer_that_knows_the_file_by_another_name_keeps_the_box(
    person: Front, tmp_path: Path, mode: str, renamed: Callable[[Front, Path], Path]
) -> None:
    path = renamed(person, tmp_path)
    with beside(mode, path, tmp_path, tmp_path / "note") as pid:
        assert_kept(person, f"pid {pid}", "out/main/metrics.json")


@pytest.mark.namespaces
@pytest.mark.parametrize("mode", ["append", pytest.param("map", marks=pytest.mark.full)])
def test_a_writer_through_a_mount_of_the_folder_keeps_the_box(person: Front, tmp_path: Path, mode: str) -> None:
    mounted, note = tmp_path / "mounted", tmp_path / "note"
    mounted.mkdir()
    worker = [sys.executable, "-I", "-S", str(WRITER), mode, str(mounted / "main" / "metrics.json"), str(note)]
    script = (
        f"mount --bind {shlex.quote(str(run_folder(person) / 'out'))} {shlex.quote(str(mounted))} || exit 97; "
        f"cd / && env -i setsid {shlex.join(worker)} </dev/null >/dev/null 2>&1 & "
        f'while [ ! -e {shlex.quote(str(note))} ]; do sleep 0.02; done; "$@"; code=$?; '
        f"kill -9 $(cat {shlex.quote(str(note))}); exit $code"
    )
    prefix = ["unshare", "--mount", "--", "/bin/sh", "-c", script, "sh"]
    assert_kept(person, "mapped for writing" if mode == "map" else "open for writing", "out/main", prefix=prefix)


def test_a_process_without_a_terminal_that_holds_a_folder_is_asked_about(person: Front, tmp_path: Path) -> None:
    path = run_folder(person) / "out" / "main" / "metrics.json"
    with beside("folder", path, tmp_path, tmp_path / "note") as pid:
        assert_kept(person, f"pid {pid}", "holds the folder out/main open, without a terminal")


def assert_kept(person: Front, *words: str, prefix: Sequence[str] = ()) -> None:
    refused = person.lease("down", "toy", "--rehearsal", prefix=prefix)
    assert refused.code == 3, refused.said
    assert root(person).is_dir(), "nothing was deleted"
    for word in words:
        assert word in refused.said, refused.said


def test_a_reader_is_named_and_does_not_keep_the_box(person: Front, tmp_path: Path) -> None:
    out = run_folder(person) / "out" / "main"
    with beside("read", out / "metrics.json", tmp_path, tmp_path / "note") as pid:
        plan = person.lease("down", "toy", "--plan")
        assert plan.code == 0, plan.said
        assert f"pid {pid}" in plan.out + plan.said
        done = person.lease("down", "toy", "--rehearsal")
        assert done.code == 0, done.said


def test_a_process_without_a_terminal_that_stands_there_is_asked_about(person: Front, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.touch()
    run = run_folder(person).name
    with beside("read", aside, run_folder(person) / "work" / "main", tmp_path / "note") as pid:
        refused = person.lease("down", "toy", "--rehearsal")
        assert refused.code == 3, refused.said
        assert f"pid {pid}" in refused.said and "work/main" in refused.said
        said = Session(person, "unused").type(
            f"lease run harmless {run} {pid}", ("type exactly", f"pid {pid} is harmless")
        )
        assert "is recorded as harmless" in said
        (event,) = person.events("process_cleared")
        assert (event["pid"], event["run"]) == (pid, run)
        done = person.lease("down", "toy", "--rehearsal")
        assert done.code == 0, done.said
    assert not root(person).exists()


def test_a_word_for_one_process_covers_no_other(person: Front, tmp_path: Path) -> None:
    out, run = run_folder(person) / "out" / "main", run_folder(person).name
    with beside("append", out / "more", tmp_path, tmp_path / "note") as pid:
        Session(person, "unused").type(f"lease run harmless {run} {pid}", ("type exactly", f"pid {pid} is harmless"))
        with beside("append", out / "other", tmp_path, tmp_path / "note2") as second:
            refused = person.lease("down", "toy", "--plan")
            assert refused.code == 3
            assert f"pid {second}" in refused.out + refused.said


def state(person: Front) -> RunState:
    return fold(journal.read_from(str(run_folder(person) / "journal.jsonl"), 0)[0])


def test_results_are_not_sealed_while_somebody_writes_them(tmp_path: Path) -> None:
    go = tmp_path / "go"
    train = _TRAIN + f"import time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.02)\n"
    with front(tmp_path / "person") as someone:
        someone.write("train.py", train)
        someone.job(artifacts=["metrics.json"])
        assert someone.lease("run", "--rehearse", "--detach", *NO_SMOKE).code == 0
        out = run_folder(someone) / "out" / "main"
        assert eventually((out / "metrics.json").exists)
        with beside("append", out / "metrics.json", tmp_path, tmp_path / "note") as pid:
            go.touch()
            assert eventually(lambda: state(someone).cells["main"].occupied), state(someone).as_dict()
            assert f"pid {pid}" in state(someone).cells["main"].occupied
            assert state(someone).cells["main"].sealed == 0
            assert eventually(lambda: f"pid {pid}" in someone.lease("status", "--refresh", "--json").out)
        assert eventually(lambda: state(someone).state == "finished"), state(someone).as_dict()
