"""A box that went down while nobody looked: its trainer ended with the last heartbeat, not when we noticed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support import processes
from tests.support.front import front
from tests.support.lives import eventually

# Waits for its end; started again, it is done at once.
TRAIN = """
import json, os, time
out = os.environ["LEASE_OUT"]
print("step 1/1 loss 0.5", flush=True)
if os.environ["LEASE_ATTEMPT"] == "1":
    time.sleep(120)
with open(os.path.join(out, "result.json"), "w") as file:
    json.dump({"loss": 0.5}, file)
"""


def test_time_in_which_the_box_was_down_is_not_trained_time(tmp_path: Path) -> None:
    with front(tmp_path) as me:
        me.write("train.py", TRAIN)
        me.job()
        assert me.lease("run", "--detach").code == 0
        (run,) = me.runs_on_box()
        folder = me.box_root / "active" / run
        # The trainer's first line may be told before the caretaker has noted its start.
        assert eventually(lambda: json.loads((folder / "status.json").read_text())["cells"]["main"]["started_unix"])
        status = json.loads((folder / "status.json").read_text())
        processes.send([status["caretaker_pid"]], signal.SIGKILL)  # first, or it would see the others die
        processes.end(me.leftovers)
        heartbeat = status["cells"]["main"]["started_unix"] + 0.25  # as if the box had gone down just then
        (folder / "status.json").write_text(json.dumps({**status, "heartbeat_unix": heartbeat}))

        done = me.lease("run")
        assert done.code == 0, done.said
        events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        (lost,) = [event for event in events if event["k"] == "attempt_ended" and event.get("lost")]
        assert lost["at"] == heartbeat < lost["t"]
        work = json.loads((folder / "status.json").read_text())["work"]
        assert work["training"] is False
        second = [event for event in events if event["k"] in ("attempt_started", "attempt_ended")][2:]
        took_s = second[1]["at"] - second[0]["at"]
        assert abs(work["trained_s"] - (0.25 + took_s)) < 0.2, "both attempts, without the time between them"
