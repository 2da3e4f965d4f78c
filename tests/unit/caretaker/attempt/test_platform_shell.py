"""What a command starts with: whose word wins, what goes round a proxy, how many threads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.attempt import platform_shell
from leasehold.caretaker.attempt.platform_shell import Outfit, hook_failed, no_proxy
from leasehold.caretaker.machine import limits
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.supervisor.tensorboard_link import link
from leasehold.kit.files.atomic import write_json

BASE = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}


@pytest.fixture(autouse=True)
def python_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both names of Python are looked for elsewhere; here no stand-in is wanted."""
    monkeypatch.setattr(platform_shell, "with_python", lambda environ, root: dict(environ))


def outfit(platform: Dict[str, Any], root: str = "/box", **more: Any) -> Dict[str, str]:
    return Outfit(root, platform, **more).environ(BASE)


def test_the_job_beats_the_platform_secrets_beat_both_and_ours_beat_all() -> None:
    platform = {"variables": dict.fromkeys("abcd", "platform")}
    values = outfit(
        platform, env={"b": "job", "c": "job", "d": "job"}, secrets={"c": "secret", "d": "secret"}, ours={"d": "ours"}
    )
    assert [values[name] for name in "abcd"] == ["platform", "job", "secret", "ours"]


def test_folders_are_filled_in_and_made(tmp_path: Path) -> None:
    root, durable = str(tmp_path / "root"), str(tmp_path / "kept")
    variables = {
        "HF_HOME": "{state}/cache/hf",
        "KEPT": "{durable}/x",
        "FAST": "{scratch}/y",
        "URL": "https://x/{state}",
    }
    values = outfit({"variables": variables, "durable": durable}, root)
    assert values["HF_HOME"] == root + "/cache/hf" and os.path.isdir(values["HF_HOME"])
    assert values["KEPT"] == durable + "/x" and not os.path.exists(values["KEPT"])  # nobody said that it is a folder
    assert values["FAST"] == root + "/y"


def test_xet_is_off_with_a_mirror_and_only_then() -> None:
    assert outfit({"variables": {"HF_ENDPOINT": "https://hf-mirror.com"}})["HF_HUB_DISABLE_XET"] == "1"
    assert "HF_HUB_DISABLE_XET" not in outfit({"variables": {"HF_ENDPOINT": "https://huggingface.co/"}})
    chosen = outfit({}, env={"HF_ENDPOINT": "https://hf-mirror.com", "HF_HUB_DISABLE_XET": "0"})
    assert chosen["HF_HUB_DISABLE_XET"] == "0"


def test_the_interpreters_folder_comes_first_unless_the_job_sets_the_path(tmp_path: Path) -> None:
    platform = {"interpreter": str(tmp_path / "python")}
    assert outfit(platform)["PATH"] == "%s:/usr/bin:/bin" % tmp_path
    assert outfit(platform, env={"PATH": "/mine"})["PATH"] == "/mine"
    assert outfit({"interpreter": "/absent folder/python"})["PATH"] == "/usr/bin:/bin"


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_a_proxy_brings_the_union_in_both_spellings_without_stars(name: str) -> None:
    values = {name: "http://p:1", "no_proxy": "a.cn, .b.cn", "NO_PROXY": "*.c.cn,a.cn"}
    union = "a.cn,.b.cn,.c.cn,.aliyun.com,127.0.0.1,localhost"
    assert no_proxy(values, [".aliyun.com", "127.0.0.1"]) == {"no_proxy": union, "NO_PROXY": union}


def test_without_a_proxy_nothing_is_said_of_one() -> None:
    assert no_proxy({"no_proxy": "a.cn", "http_proxy": ""}, [".aliyun.com"]) == {}


@pytest.mark.parametrize(
    ("quota", "gpus", "threads"), [("250000 100000", 1, "2"), ("50000 100000", 1, "1"), ("400000 100000", 4, "1")]
)
def test_thread_pools_are_capped_by_the_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, gpus: int, threads: str
) -> None:
    (tmp_path / "cpu.max").write_text(quota + "\n")
    (tmp_path / "own").write_text("0::/\n")
    monkeypatch.setattr(limits, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(limits, "_OWN_CGROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    values = outfit({}, gpus=gpus, env={"MKL_NUM_THREADS": "9"})
    assert values["OMP_NUM_THREADS"] == values["OPENBLAS_NUM_THREADS"] == threads
    assert values["MKL_NUM_THREADS"] == "9"


def test_without_a_quota_nothing_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    monkeypatch.setattr(limits, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(limits, "_OWN_CGROUPS", str(tmp_path / "absent"))
    assert "OMP_NUM_THREADS" not in outfit({})


def test_our_own_switches_do_not_reach_the_job() -> None:
    values = Outfit("/box", {}).environ({**BASE, "LEASEHOLD_PAUSE": "x", "LEASEHOLD_FETCH": "{}"})
    assert not [name for name in values if name.startswith("LEASEHOLD_")]


def test_a_hook_that_is_still_due_has_failed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(b"line %d" % number for number in range(20)) + b"\n")
    assert hook_failed(str(tmp_path / "due"), 0, str(log)) is None
    (tmp_path / "due").write_text(". /etc/turbo")
    found = hook_failed(str(tmp_path / "due"), 2, str(log))
    assert found is not None and found["hook"] == ". /etc/turbo" and found["lines"][-1] == "line 19"
    assert len(found["lines"]) == 6


# ---------------------------------------------------------------- where secrets lie


def test_secrets_lie_on_the_private_tier_when_the_root_does_not(tmp_path: Path) -> None:
    folder = RunFolder.below(str(tmp_path / "shared" / "root"), "life-1")
    os.makedirs(folder.path)
    assert folder.secrets == folder.root + "/secrets/life-1.json"
    write_json(folder.plan, {"environment": {"credentials": str(tmp_path / "own")}})
    assert os.path.dirname(os.path.dirname(folder.secrets)) == str(tmp_path / "own")
    write_json(folder.environment, {"credentials": str(tmp_path / "shared")})
    assert folder.secrets == folder.root + "/secrets/life-1.json"
    write_json(folder.environment, {})
    assert folder.secrets == folder.root + "/secrets/life-1.json"


# ---------------------------------------------------------------- the TensorBoard link


def test_a_link_shows_the_run_and_goes_with_it(tmp_path: Path) -> None:
    folder = RunFolder.below(str(tmp_path / "box"), "life-1")
    other = RunFolder.below(str(tmp_path / "box"), "life-2")
    for run in (folder, other):
        os.makedirs(run.out("main"))
    platform = {"tensorboard_dir": str(tmp_path / "tf logs")}
    noted = link(folder, platform, ["main"])
    assert noted == {"link": str(tmp_path / "tf logs" / "life-1"), "target": folder.out("main")}
    assert link(folder, platform, ["main"]) is None
    os.rename(folder.path, str(tmp_path / "gone"))
    link(other, platform, ["main"])
    assert sorted(os.listdir(str(tmp_path / "tf logs"))) == ["life-2"]


def test_a_folder_of_yours_is_never_replaced(tmp_path: Path) -> None:
    folder = RunFolder.below(str(tmp_path / "box"), "life-1")
    mine = tmp_path / "tf" / "life-1"
    mine.mkdir(parents=True)
    noted = link(folder, {"tensorboard_dir": str(tmp_path / "tf")}, ["main"])
    assert noted is not None and "left alone" in noted["problem"]
    assert mine.is_dir() and not mine.is_symlink()


def test_a_place_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = RunFolder.below(str(tmp_path / "box"), "life-1")
    noted = link(folder, {"tensorboard_dir": str(tmp_path / "file" / "tf")}, ["main"])
    assert noted is not None and noted["problem"]
    assert link(folder, {}, ["main"]) is None
