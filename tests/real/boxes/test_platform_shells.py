"""A platform's hook, variables and places, in real shells of real runs on this machine as a box."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files import journal
from tests.support.front import Front, front
from tests.support.lives import eventually

SHOW = "import json, os\njson.dump(dict(os.environ), open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
RUN = f"{sys.executable} -I -S train.py"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose job writes down the environment it got."""
    with front(tmp_path, {"LEASEHOLD_CONFIG": str(tmp_path / "config")}) as person:
        person.write("train.py", SHOW)
        person.job(run=RUN)
        yield person


def platform(me: Front, tiers: Any = None, **environment: Any) -> None:
    """Lay an overlay over the profile of this machine."""
    place = me.folder / "config" / "profiles"
    place.mkdir(parents=True, exist_ok=True)
    value = {"extends": "local", "environment": environment, **({"tiers": tiers} if tiers else {})}
    (place / "local.yaml").write_text(json.dumps(value), encoding="utf-8")


def disk(name: str, path: Path) -> dict[str, Any]:
    """Spell a further tier."""
    survives = {"stop": "yes", "destroy": "yes", "balance_zero": "yes"}
    return {
        "name": name, "path": str(path), "roles": [], "own_mount": False, "survives": survives, "source": "own",
    }  # fmt: skip


def hook(me: Front, text: str) -> str:
    """Write a hook file in an awkward place; return the profile's line."""
    path = me.folder / "net turbo"
    path.write_text(text, encoding="utf-8")
    return f". '{path}'"


def got(me: Front) -> dict[str, str]:
    """Read what the trainer was given."""
    found = sorted((me.project / "lease-results" / "export").glob("*/cells/main/result.json"))
    return dict(json.loads(found[-1].read_text()))


def events(me: Front, kind: str) -> list[dict[str, Any]]:
    """Read the box's journal."""
    run = me.box_root / "active" / me.runs_on_box()[-1] / "journal.jsonl"
    return [event for event in journal.read_from(str(run), 0)[0] if event["k"] == kind]


def test_a_hooks_exports_reach_the_trainer_and_the_jobs_own_words_win(me: Front) -> None:
    text = "export FROM_HOOK=1 SEED=hook LEASE_RUN=hook\nset -- x y; cd /\n"
    text += "export http_proxy=http://127.0.0.1:9 no_proxy=.own.cn\n"
    platform(me, hook=hook(me, text), variables={"SEED": "profile", "KEPT": "profile"}, no_proxy=[".aliyun.com"])
    me.job(run=RUN, env={"SEED": "job"})
    done = me.lease("run")
    assert done.code == 0, done.said
    seen = got(me)
    assert (seen["FROM_HOOK"], seen["SEED"], seen["KEPT"]) == ("1", "job", "profile")
    assert seen["LEASE_RUN"] == me.runs_on_box()[0]
    assert seen["no_proxy"] == seen["NO_PROXY"] == ".own.cn,.aliyun.com,127.0.0.1,localhost"
    assert not [name for name in seen if name.startswith("LEASEHOLD_SETTLE")]


def test_a_hook_runs_before_setup_in_the_same_shell(me: Front) -> None:
    platform(me, hook="export TURBO=on")
    me.job(run=RUN, setup='echo "$TURBO" > "$LEASE_OUT/setup"')
    assert me.lease("run").code == 0
    run = me.box_root / "active" / me.runs_on_box()[0]
    assert (run / "out" / "main" / "setup").read_text() == "on\n"


FAILING = {
    "a missing file": ". /absent/network_turbo",
    "a status": "echo no route >&2; (exit 7)",
    "an exit": "echo leaving; exit 0",
    "an error with set -e": "set -e; false; true",
    "a syntax error": "if then",
}


@pytest.mark.parametrize("what", list(FAILING))
def test_a_failing_hook_aborts_and_is_not_the_trainers_crash(me: Front, what: str) -> None:
    platform(me, hook=FAILING[what])
    done = me.lease("run")
    assert done.code != 0
    assert "hook_failed: the platform's hook" in done.said
    (failed,) = events(me, "hook_failed")
    assert failed["hook"] == FAILING[what]
    assert len(events(me, "attempt_starting")) == 1  # no retry of what is not the trainer's fault
    assert not (me.box_root / "active" / me.runs_on_box()[0] / "out" / "main" / "result.json").exists()


def test_a_mended_hook_lets_the_identical_command_go_on(me: Front) -> None:
    platform(me, hook="(exit 3)")
    assert me.lease("run").code != 0
    platform(me, hook="export MENDED=1")
    done = me.lease("run")
    assert done.code == 0, done.said
    assert got(me)["MENDED"] == "1"
    assert len(me.runs_on_box()) == 1
    platform(me)
    assert me.lease("run", "--again").code == 0
    assert "MENDED" not in got(me)


def test_the_environment_check_goes_through_the_hook_too(me: Front) -> None:
    me.write("train.py", "import numpy\n" + SHOW)
    platform(me, hook="echo the proxy is down; (exit 4)")
    done = me.lease("check", "env")
    assert done.code != 0
    assert "hook_failed" in done.said and "the proxy is down" in done.said


def test_caches_lie_on_the_state_tier_and_the_interpreter_comes_first(me: Front) -> None:
    place = me.folder / "conda bin"
    place.mkdir()
    (place / "python").symlink_to(sys.executable)
    platform(
        me,
        interpreter=str(place / "python"),
        variables={"HF_ENDPOINT": "https://hf-mirror.com", "HF_HOME": "{state}/cache/huggingface"},
    )
    me.job(run="python -I -S train.py")
    done = me.lease("run", PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert done.code == 0, done.said
    seen = got(me)
    assert seen["PATH"].split(":")[0] == str(place)
    assert seen["HF_HOME"] == str(me.box_root / "cache" / "huggingface") and os.path.isdir(seen["HF_HOME"])
    assert seen["HF_HUB_DISABLE_XET"] == "1"


def test_the_tensorboard_folder_shows_the_run(me: Front) -> None:
    place = me.folder / "tf-logs"
    platform(me, tensorboard_dir=str(place))
    assert me.lease("run").code == 0
    run = me.runs_on_box()[0]
    assert (place / run / "result.json").exists() and (place / run).is_symlink()
    assert events(me, "tensorboard_linked")[0]["link"] == str(place / run)


def test_secrets_lie_on_the_private_tier_and_go_with_the_run(me: Front) -> None:
    own = me.folder / "own disk"
    own.mkdir()
    platform(me, [disk("own disk", own)], credentials="own disk")
    look = f'find "{own}" -name "*.json" -printf "%m %p\\n" > "$LEASE_OUT/seen"'
    me.job(run=f"{look}; {RUN}", secrets=["MY_KEY"])
    done = me.lease("run", MY_KEY="very-private-value")
    assert done.code == 0, done.said
    (run,) = me.runs_on_box()
    mode, path = (me.box_root / "active" / run / "out" / "main" / "seen").read_text().splitlines()[0].split(" ", 1)
    assert mode == "600" and path.endswith(f"/{run}.json")
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert eventually(lambda: not os.path.exists(path)), "the caretaker forgets them as it leaves"
    assert not (me.box_root / "secrets").exists()
    assert "very-private-value" not in done.said


def test_secrets_are_not_sent_to_a_shared_disk(me: Front) -> None:
    common = me.folder / "common disk"
    common.mkdir()
    (me.folder / "looks private").symlink_to(common)
    platform(me, [{**disk("common disk", common), "shared": True}])
    me.job(run=RUN, secrets=["MY_KEY"])
    for root in (me.folder / "looks private" / "root", common / "root"):
        done = me.lease("run", "--root", str(root), MY_KEY="very-private-value")
        assert done.code != 0
        assert "error[secret.shared_tier]: MY_KEY would lie on common disk" in done.said
    assert not (common / "root" / "secrets").exists() and not any((common / "root").glob("active/*/plan.json"))


def test_trackers_are_asked_through_the_hook(me: Front) -> None:
    platform(me, hook="echo the proxy is down; (exit 4)")
    me.job(run=RUN, secrets=["WANDB_API_KEY"])
    done = me.lease("check", "env", WANDB_API_KEY="0123456789" * 4)
    assert "WANDB_API_KEY" in done.said and "hook_failed" in done.said and "the proxy is down" in done.said
    assert "0123456789" not in done.said
