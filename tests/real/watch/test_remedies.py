"""What the caretaker does about real failures, on this machine as a box: classed, remedied once, told at home."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files import journal
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import newest_state, read_file
from tests.support.front import Done, Front, front

DONE = "printf '{}' > \"$LEASE_OUT/result.json\""
BLIP = "echo 'step 3/10 loss 1.0'; echo 'HTTPError: 503 Server Error: Service Unavailable for url: https://x'; exit 1"
UP = "echo up; while :; do sleep 0.05; done"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path / "me") as person:
        yield person


def run_folder(me: Front) -> Path:
    [found] = (me.box_root / "active").iterdir()
    return found


def events(me: Front, kind: str = "") -> list[dict[str, Any]]:
    found, _ = journal.read_from(str(run_folder(me) / "journal.jsonl"), 0)
    return [event for event in found if not kind or event["k"] == kind]


def attempts(me: Front) -> int:
    return len(events(me, "attempt_starting"))


def remedies(me: Front) -> list[tuple[str, str]]:
    classes = [str(event["class"]) for event in events(me, "failure_classed")]
    return list(zip(classes, [str(event["remedy"]) for event in events(me, "remedy_chosen")], strict=True))


def until(me: Front, kind: str, limit_s: float = 60.0) -> dict[str, Any]:
    """Wait for an event of a detached run."""
    give_up = time.monotonic() + limit_s
    while time.monotonic() < give_up:
        found = events(me, kind)
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"no {kind} within {limit_s} s: {events(me)}")


def launch(me: Front) -> Done:
    done = me.lease("run", "--detach")
    assert done.code == 0, done.said
    return done


# ---------------------------------------------------------------- classes


def test_a_bug_is_stopped_explained_and_not_retried(me: Front) -> None:
    me.write("train.py", "print('step 1/9')\n{}['lr']\n")
    me.job()
    done = me.lease("run")
    assert done.code == 6, done.said
    assert (attempts(me), remedies(me)) == (1, [("bug", "stop")])
    assert "KeyError: 'lr'" in done.said
    [run] = me.runs_on_box()
    assert "bug: PY7" in me.lease("status").said
    assert "attempt 1 failed: bug (exited)" in me.lease("logs", run).said
    asked = me.lease("doctor", run)
    assert "remedy: none; it stays stopped" in asked.out
    assert "done" in json.loads(me.lease("doctor", run, "--json").out)


def test_a_blip_is_followed_by_the_identical_command_after_a_pause(me: Front) -> None:
    me.job(run=f"if [ $LEASE_ATTEMPT = 1 ]; then {BLIP}; fi; {DONE}")
    done = me.lease("run")
    assert done.code == 0, done.said
    assert (attempts(me), remedies(me)) == (2, [("probabilistic", "again")])
    assert events(me, "remedy_chosen")[0]["wait_s"] > 0


def test_the_same_sign_at_the_same_step_twice_is_no_accident(me: Front) -> None:
    me.job(run=BLIP, attempts=9)
    assert me.lease("run").code == 6
    assert (attempts(me), [remedy for _, remedy in remedies(me)]) == (2, ["again", "stop"])


def test_a_killed_trainer_is_started_again_at_once(me: Front) -> None:
    me.job(run=f"if [ $LEASE_ATTEMPT = 1 ]; then kill -9 $$; fi; {DONE}")
    assert me.lease("run").code == 0
    [failure] = events(me, "failure_classed")
    assert (failure["class"], failure["verdict"]) == ("probabilistic", "killed")
    assert "our own journal has no kill" in " ".join(failure["evidence"])
    assert events(me, "remedy_chosen")[0]["wait_s"] == 0


def test_a_hang_up_is_told_from_a_kill(me: Front) -> None:
    me.job(run=f"if [ $LEASE_ATTEMPT = 1 ]; then kill -HUP $$; fi; {DONE}")
    assert me.lease("run").code == 0
    assert [event["verdict"] for event in events(me, "failure_classed")] == ["hangup"]


def test_another_boot_is_a_reboot_and_resumes(me: Front) -> None:
    me.job(run=f"if [ $LEASE_ATTEMPT = 1 ]; then {UP}; fi; {DONE}")
    launch(me)
    started = run_folder(me) / "cells/main/attempt-0001/started.json"
    pid = until(me, "attempt_started")["pid"]
    assert json.loads(started.read_text())["boot"]
    lines = (run_folder(me) / "journal.jsonl").read_text().splitlines()
    boot = json.loads(started.read_text())["boot"]
    caretaker = json.loads((run_folder(me) / "status.json").read_text())["caretaker_pid"]
    keeper = int((run_folder(me) / "cells/main/attempt-0001/claim").read_text())
    for victim in (caretaker, keeper, pid):  # all at once, as a power cut does
        os.kill(victim, signal.SIGKILL)
    (run_folder(me) / "journal.jsonl").write_text("\n".join(lines).replace(boot, "0" * 36) + "\n")
    done = me.lease("run")
    assert done.code == 0, done.said
    [failure] = events(me, "failure_classed")
    assert (failure["class"], failure["verdict"]) == ("preempted", "reboot")
    assert remedies(me) == [("preempted", "resume")]


def test_a_kill_for_memory_is_proven_by_the_cgroup_and_not_retried(me: Front) -> None:
    cgroup = Path(f"/sys/fs/cgroup/memory/leasehold-oom-{os.getpid()}")
    if os.geteuid() != 0 or not (cgroup.parent / "memory.limit_in_bytes").exists():
        pytest.skip("needs root and a cgroup v1 memory controller")
    try:
        cgroup.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    enter = ["/bin/sh", "-c", f'echo $$ > "{cgroup}/cgroup.procs" && exec "$@"', "sh"]
    try:
        (cgroup / "memory.limit_in_bytes").write_text(str(300 << 20))
        me.write("train.py", "print('step 1/9', flush=True)\nheld = b'x' * (600 << 20)\n")
        me.job()
        skip = ("--skip-gate", "audit", "--because", "the cgroup is small")
        done = me.lease("run", *skip, prefix=enter)
        assert done.code == 6, done.said
        [failure] = events(me, "failure_classed")
        assert (failure["class"], failure["verdict"]) == ("bug", "oom")
        assert "oom_kill" in failure["evidence"][0]
        assert attempts(me) == 1
    finally:
        give_up = time.monotonic() + 60
        while (cgroup / "cgroup.procs").read_text() and time.monotonic() < give_up:
            time.sleep(0.05)
        cgroup.rmdir()


# ---------------------------------------------------------------- the chain


def test_evaluation_follows_training_and_only_then_the_seal(me: Front) -> None:
    me.job(run="echo trained > $LEASE_OUT/model", evaluate=f"cat $LEASE_OUT/model; {DONE}", env={"A": "1"})
    done = me.lease("run")
    assert done.code == 0, done.said
    kinds = [event["k"] for event in events(me)]
    chain = ["stage_passed", "cell_pending", "attempt_starting", "stage_passed", "cell_sealed", "cell_finished"]
    assert [kind for kind in kinds if kind in chain][1:] == chain
    assert [event.get("stage", "train") for event in events(me, "attempt_starting")] == ["train", "evaluate"]
    assert (run_folder(me) / "cells/main/attempt-0002/log").read_text() == "trained\n"


def test_a_failed_evaluation_fails_the_cell_and_does_not_train_again(me: Front) -> None:
    go = me.folder / "go"
    me.job(
        run="echo x >> $LEASE_OUT/trained",
        evaluate=f'if [ -e "$GO" ]; then {DONE}; else exit 3; fi',
        env={"GO": str(go)},
    )
    assert me.lease("run").code == 6
    go.touch()
    done = me.lease("run")
    assert done.code == 0, done.said
    assert (run_folder(me) / "out/main/trained").read_text() == "x\n"


def test_exit_0_without_the_promised_artifacts_is_a_failure_with_the_list(me: Front) -> None:
    me.job(run="touch $LEASE_OUT/empty.json", artifacts=["result.json", "empty.json"])
    done = me.lease("run")
    assert done.code == 6, done.said
    [failure] = events(me, "failure_classed")
    assert failure["verdict"] == "incomplete"
    assert failure["evidence"] == ["nothing in $LEASE_OUT matches 'result.json'", "empty.json is empty (0 bytes)"]
    assert events(me, "cell_sealed") == []


def test_a_promise_may_be_mended_and_nothing_is_trained_again(me: Front) -> None:
    run = "echo x >> $LEASE_OUT/trained"
    me.job(run=run, artifacts=["result.json"])
    assert me.lease("run").code == 6
    me.job(run=run, artifacts=["trained"])
    done = me.lease("run")
    assert done.code == 0, done.said
    assert (attempts(me), (run_folder(me) / "out/main/trained").read_text()) == (1, "x\n")


def test_what_ends_far_too_soon_is_finished_with_a_warning(me: Front) -> None:
    me.job(run=DONE, expect="6h")
    done = me.lease("run")
    assert done.code == 0, done.said
    [fast] = events(me, "fast_finished")
    assert fast["expected_s"] == 21600
    assert "finished fast" in done.said
    status = run_folder(me) / "status.json"  # written after the event that ends the run
    assert_soon(lambda: json.loads(status.read_text())["health"].get("state") == "fast-finished")


# ---------------------------------------------------------------- stalls and going boxes


def test_a_trainer_that_stands_still_is_told_of_and_left_alone(me: Front) -> None:
    me.job(run="echo up; exec sleep 600", stall="2s")
    launch(me)
    stalled = until(me, "stalled")
    assert "its process lives" in stalled["evidence"]
    [run] = me.runs_on_box()
    assert "STALLED" in me.lease("status", run, "--refresh").said
    assert me.lease("stop", run, "--grace", "5").code == 0
    assert attempts(me) == 1


def test_a_job_may_have_a_stalled_trainer_started_again(me: Front) -> None:
    me.job(
        run=f"if [ $LEASE_ATTEMPT = 1 ]; then echo up; sleep 600; fi; {DONE}", stall={"after": "2s", "then": "again"}
    )
    done = me.lease("run")
    assert done.code == 0, done.said
    [failure] = events(me, "failure_classed")
    assert (failure["class"], failure["verdict"]) == ("probabilistic", "stalled")


SAVES = (
    'trap \'printf newest > "$LEASE_OUT/last.pt"; exit 143\' TERM; printf older > "$LEASE_OUT/last.pt"; '
    "echo up; while :; do sleep 0.05; done"
)


def newest_text(place: FolderPlace, run: str) -> bytes:
    """Read the newest checkpoint that is off the box."""
    kept = newest_state(place, run, "main")
    return b"" if kept is None else b"".join(read_file(place, kept, kept.state.files[0]))


def test_a_box_that_goes_has_its_checkpoint_sent_and_its_trainer_told(me: Front) -> None:
    durable = me.folder / "durable"
    durable.mkdir()
    me.job(run=SAVES, checkpoint={"path": "last.pt"})
    launch(me)
    until(me, "attempt_started")
    platform = {"durable": str(durable), "durable_is_folder": True, "grace_s": 5}
    (run_folder(me) / "environment.json").write_text(json.dumps(platform))
    caretaker = json.loads((run_folder(me) / "status.json").read_text())["caretaker_pid"]
    os.kill(caretaker, signal.SIGTERM)
    noticed = until(me, "preempt_noticed")
    assert (noticed["by"], noticed["grace_s"]) == ("SIGTERM", 5)
    remedy = until(me, "remedy_chosen")
    assert (remedy["remedy"], remedy["wait_s"] > 5) == ("resume", True)
    assert remedies(me) == [("preempted", "resume")]
    place, name = FolderPlace(str(durable)), run_folder(me).name
    assert_soon(lambda: newest_text(place, name) == b"newest")
    until(me, "refuge_copied")
    assert attempts(me) == 1, "nothing is begun on a box in its last seconds"
    [run] = me.runs_on_box()
    assert me.lease("stop", run).code == 0


@pytest.mark.parametrize("grace_s", [0.0, 1.5])
def test_after_a_box_was_taken_the_same_command_uses_the_checkpoint(me: Front, grace_s: float) -> None:
    """As platforms do it: SIGTERM to every process, SIGKILL when the grace is over; some give none, and no signal."""
    saves = SAVES.replace("printf older", "[ -e $LEASE_OUT/last.pt ] || printf older")
    me.job(run=f'if [ $LEASE_ATTEMPT = 2 ]; then cat "$LEASE_OUT/last.pt"; {DONE}; exit 0; fi; {saves}')
    launch(me)
    trainer = until(me, "attempt_started")["pid"]
    assert_soon(lambda: (run_folder(me) / "out/main/last.pt").exists())
    keeper = int((run_folder(me) / "cells/main/attempt-0001/claim").read_text())
    caretaker = json.loads((run_folder(me) / "status.json").read_text())["caretaker_pid"]
    for number in (signal.SIGTERM, signal.SIGKILL) if grace_s else (signal.SIGKILL,):
        for pid in (caretaker, keeper, trainer):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGTERM:
            time.sleep(grace_s)
            assert_soon(lambda: (run_folder(me) / "out/main/last.pt").read_text() == "newest")
    done = me.lease("run")
    assert done.code == 0, done.said
    assert attempts(me) == 2
    assert (run_folder(me) / "cells/main/attempt-0002/log").read_text() == ("newest" if grace_s else "older")
    assert [event["class"] for event in events(me, "failure_classed")][0] in ("preempted", "unknown")


def test_a_pause_outlives_its_caretaker_and_is_not_begun_anew(me: Front) -> None:
    me.job(run=f"if [ $LEASE_ATTEMPT = 1 ]; then {BLIP}; fi; {DONE}")
    moment = me.folder / "moment"
    moment.mkdir()
    started = me.lease("run", "--detach", LEASEHOLD_PAUSE=f"{moment}:cell_pending:after")  # it would go on in 2 s
    assert started.code == 0, started.said
    assert_soon(lambda: (moment / "reached").exists() and (moment / "reached").read_text() != "")
    os.kill(int((moment / "reached").read_text()), signal.SIGKILL)
    done = me.lease("run")
    assert done.code == 0, done.said
    chosen = events(me, "remedy_chosen")[0]
    begun = events(me, "attempt_starting")[1]
    assert begun["t"] >= chosen["t"] + chosen["wait_s"] - 0.01
    assert len(events(me, "remedy_chosen")) == 1


LISTENS = """
import os, signal, time
out, request = os.environ["LEASE_OUT"], os.environ["LEASE_SAVE_REQUEST"]
os.makedirs(os.path.join(out, "ckpt"))
open(os.path.join(out, "ckpt", "index.json"), "w").write("{}")
def leave(number, frame):
    open(os.path.join(out, "order"), "a").write("told ")
    raise SystemExit(143)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
while True:
    if os.path.exists(request) and not os.path.exists(request + ".done"):
        open(os.path.join(out, "order"), "a").write("saved ")
        open(request + ".done", "w").write("7")
    time.sleep(0.02)
"""


def test_a_stop_asks_for_a_save_before_it_tells_the_trainer_to_leave(me: Front) -> None:
    me.write("train.py", LISTENS)
    me.job(checkpoint={"path": "ckpt/*.safetensors"})
    launch(me)
    assert_soon(lambda: (run_folder(me) / "out/main/ckpt/index.json").exists())
    [run] = me.runs_on_box()
    assert me.lease("stop", run, "--grace", "20").code == 0
    assert (run_folder(me) / "out/main/order").read_text() == "saved told "


def assert_soon(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    give_up = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.05)
