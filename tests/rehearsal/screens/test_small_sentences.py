"""Sentences that a person reads in the first hour: they say what was read, name the interpreter, and waste no line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import NO_SMOKE, Front, front

WRITES = """
import json, os
out = os.environ["LEASE_OUT"]
print("[INFO|trainer.py:1614] 2026-11-18 >> {'loss': 0.5, 'epoch': 1.0}", flush=True)
for name in ("a.txt", "b.txt", "notes.md"):
    open(os.path.join(out, name), "w").write("words")
json.dump({"x": 1}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody with an empty project."""
    with front(tmp_path / "person") as someone:
        yield someone


def test_show_says_how_each_gate_judged(person: Front) -> None:
    person.write("train.py", WRITES)
    person.job(artifacts=["*.txt", "result.json"])
    done = person.lease("run")
    assert done.code == 0, done.said
    assert "loads: 1 json; hash-equal only: " in done.said, done.said
    shown = person.lease("show", "toy").out
    for gate in ("plan", "audit", "launch"):
        assert re.search(rf"\b{gate}: passed \(\d+ checks?\)", shown), shown
    skipped = person.lease("run", "--again", "--skip-gate", "audit", "--because", "I know it")
    assert skipped.code == 0, skipped.said


def test_a_teardown_counts_what_stays_in_units_and_words(person: Front) -> None:
    person.write("train.py", WRITES)
    person.job(artifacts=["*.txt", "result.json"])
    assert person.lease("run", "--rehearse", *NO_SMOKE).code == 0
    plan = person.lease("down", "toy", "--plan")
    assert "NOT coming home: 1 file, 5 B, that no artifact names:" in plan.said + plan.out, plan


def test_a_teardown_names_what_was_written_beside_code_and_cells(person: Front) -> None:
    beside = 'open("model.bin", "w").write("weights")\nos.makedirs(out + "/../more")\nopen(out + "/../more/x", "w")\n'
    person.write("train.py", WRITES + beside)
    person.job(artifacts=["*.txt", "*.md", "result.json"])
    assert person.lease("run", "--rehearse", *NO_SMOKE).code == 0
    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    left = {(entry["cell"], entry["path"], entry["bytes"]) for entry in plan["not_coming_home"]}
    assert left == {("main", "work/main/model.bin", 7), ("*", "out/more/x", 0)}
    gone = person.lease("down", "toy", "--rehearsal")
    assert gone.code == 0, gone.said
    assert "not home, as no artifact names them: 2 files, 7 B, deleted with the box: " in gone.said, gone.said


def test_a_teardown_says_where_writes_beside_the_code_cannot_be_told(person: Front) -> None:
    person.write("train.py", WRITES)
    person.job(artifacts=["*.txt", "*.md", "result.json"])
    assert person.lease("run", "--rehearse", *NO_SMOKE).code == 0
    assert json.loads(person.lease("down", "toy", "--plan", "--json").out)["not_coming_home"] == []
    for tree in (person.home / "boxes" / "rehearsal" / "trees").iterdir():
        tree.unlink()
    plan = person.lease("down", "toy", "--plan")
    assert "what it wrote beside its code cannot be listed: " in plan.said, plan.said


def test_a_plan_of_many_says_why_a_cost_is_unknown_and_skips_dead_clocks(person: Front) -> None:
    person.job()
    plan = person.lease("plan", "--on", "all")
    (said,) = (line for line in plan.said.splitlines() if line.startswith("cost unknown on"))
    assert "no price was given (--price 1.98USD/h" in said and "expect: 6h" in said and "runpod" in said
    priced = person.lease("plan", "--on", "generic-ssh", "--on", "runpod", "--price", "2USD/h")
    assert "no price was given" not in priced.said and "the job does not say how long it takes" in priced.said
    whole = person.lease("plan", "--on", "generic-ssh").out
    assert "never  no idle timer: a forgotten box bills" in whole and "when it idles" not in whole
    assert "no idle timer: a forgotten box" in person.lease("platforms", "show", "generic-ssh").out


def test_a_missing_module_names_the_interpreter(person: Front) -> None:
    person.write("train.py", "import no_such_module\n")
    person.job(smoke="python3 train.py", run="python3 train.py", attempts=1)
    done = person.lease("run")
    assert done.code == 3 and re.search(r"/\S*python3 ran the smoke: install no_such_module for it", done.said), done
    failed = person.lease("run", *NO_SMOKE)
    assert failed.code == 6, failed.said
    told = person.lease("doctor", "toy").out
    assert re.search(r"the interpreter that ran it: /\S*python3", told), told
    assert re.search(r"\$ /\S*python\S* -m pip install no_such_module", told), told


def test_the_doctor_agrees_with_the_box_and_leaves_no_field_unfilled(person: Front) -> None:
    person.write("train.py", "import os\nprint('step 1 loss 1', flush=True)\nos.kill(os.getpid(), 9)\n")
    person.job(attempts=1)
    assert person.lease("run").code == 6
    found = json.loads(person.lease("doctor", "toy", "--json").out)["findings"]
    assert [one["id"] for one in found] == ["U3"], found
    told = person.lease("doctor", "PY0").out
    assert "{log}" not in told and "LOG" in told


def test_a_full_disk_is_named_with_the_folder_that_fills_it(person: Front) -> None:
    full = "raise OSError(28, 'No space left on device')"
    fill = "import os\nopen(os.path.join(os.environ['LEASE_OUT'], 'big.bin'), 'wb').write(bytes(9_000_000))\n"
    person.write("train.py", fill + full + "\n")
    person.job(attempts=1)
    assert person.lease("run").code != 0
    run = person.runs_on_box()[0]
    told = person.lease("doctor", "toy").out
    assert f"what fills the disk below {person.box_root}: 9.0 MB in" in told, told
    assert f"active/{run}/out/main/big.bin" in told, told


def test_a_line_of_library_code_is_no_metric(person: Front) -> None:
    from leasehold.kit.text.progress import ProgressReader

    reader = ProgressReader()
    reader.feed("[info|trainer.py:1614] 2026-11-18 >> step 5/9 loss: 0.5 lr: 0.1\n")
    assert reader.now.metrics == {"lr": 0.1} and reader.now.loss == 0.5


def test_inspect_knows_the_step_of_a_nanogpt_like_checkpoint(person: Front) -> None:
    torch = pytest.importorskip("torch", reason="no torch here (optional)")
    where = person.project / "ckpt.pt"
    torch.save({"model": {"w": torch.zeros(2)}, "optimizer": {}, "iter_num": 150, "best_val_loss": 1.0}, where)
    assert "step or epoch: iter_num" in person.lease("ckpt", "inspect", str(where)).out


def test_a_value_that_init_left_open_is_asked_for_before_anything_starts(person: Front) -> None:
    main = "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()\nimport torch\n"
    person.write("train.py", main)
    person.write("README.md", "```\npython train.py [folder with images]\n```\n")
    assert person.lease("init").code == 0
    for words in (["run", *NO_SMOKE], ["run"], ["check", "smoke"]):
        refused = person.lease(*words)
        assert refused.code == 2 and "error[job.unfilled]" in refused.said, refused.said
        assert "FILL_IN is still in run" in refused.said, refused.said
        assert re.search(r"seen: line \d+ of lease\.yaml", refused.said), refused.said
    assert json.loads(person.lease("status", "--json").out)["runs"] == []


def test_show_names_the_smoke_that_passed_before_the_run(person: Front) -> None:
    person.write("train.py", WRITES)
    person.job(artifacts=["*.txt", "result.json"], smoke="python3 train.py")
    assert person.lease("run").code == 0
    assert "smoke: passed" in person.lease("show", "toy").out
    person.write("train.py", WRITES + "#\n")
    assert person.lease("run", "--again", *NO_SMOKE).code == 0
    assert "smoke: passed" not in person.lease("show", "toy").out
