"""AutoDL's own ways, end to end on the simulated box: network_turbo in every shell, the checked copy to autodl-fs."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.autodl_bed import SHARED, AutodlBox, AutodlCloud
from tests.support.autodl_image import BROKEN_TURBO
from tests.support.front import NO_SMOKE, Done, Front, front
from tests.support.lives import TRAINER

BOX = "gpu1"
LOOKS = """
import json, os
names = ("http_proxy", "https_proxy", "no_proxy", "NO_PROXY", "HF_ENDPOINT", "HF_HUB_DISABLE_XET", "HF_HOME", "PATH",
         "PIP_INDEX_URL", "OMP_NUM_THREADS")
open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w").write(json.dumps({n: os.environ.get(n) for n in names}))
print("step 1")
"""


@pytest.fixture
def box(autodl: AutodlCloud, request: pytest.FixtureRequest) -> AutodlBox:
    """Give an instance; a mark may make the region's file storage small in inodes."""
    inodes = getattr(request, "param", 200_000)
    return autodl.rent(autodl.region(fs_inodes=inodes))


@pytest.fixture
def me(autodl: AutodlCloud, box: AutodlBox, tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path / "me", autodl.environment) as person:
        shutil.copy(TRAINER, person.project / "train.py")
        (person.project / "looks.py").write_text(LOOKS)
        (person.project / "many.py").write_text(
            "import os\nfor n in range(60):\n"
            "    open(os.path.join(os.environ['LEASE_OUT'], 'sample-%d.json' % n), 'w').write('{}')\nprint('step 1')\n"
        )
        added = person.lease("box", "add", BOX, box.ssh_line, "--platform", "autodl", "--price", "1.98CNY/h")
        assert added.code == 0, added.said
        yield person


def export(done: Done) -> Path:
    return Path(done.out.strip()) / "cells" / "main"


def test_turbo_mirrors_and_caches_are_set_before_the_interpreter_starts(me: Front, box: AutodlBox) -> None:
    me.job(run="python looks.py", artifacts={"result.json": "json"})
    done = me.lease("run", "--on", BOX, *NO_SMOKE)
    assert done.code == 0, done.said
    assert "目录说明" not in done.said, "the login's banner is not the trainer's output"
    seen = json.loads((export(done) / "result.json").read_text())
    assert seen["http_proxy"] == seen["https_proxy"] == "http://127.0.0.1:9"
    assert seen["HF_ENDPOINT"] == "https://hf-mirror.com" and seen["HF_HUB_DISABLE_XET"] == "1"
    assert seen["HF_HOME"] == "/root/autodl-tmp/leasehold/cache/huggingface"
    assert seen["PATH"].split(":")[0] == "/root/miniconda3/bin"
    assert seen["PIP_INDEX_URL"].startswith("https://pypi.tuna.tsinghua.edu.cn")
    assert seen["no_proxy"] == seen["NO_PROXY"]
    for name in (".modelscope.cn", ".hf-mirror.com", "localhost", "127.0.0.1"):
        assert name in seen["no_proxy"].split(","), seen["no_proxy"]


def test_a_turbo_that_fails_aborts_and_is_named(me: Front, box: AutodlBox) -> None:
    me.job(run="python looks.py", artifacts={"result.json": "json"})
    box.turbo(BROKEN_TURBO)
    done = me.lease("run", "--on", BOX, *NO_SMOKE)
    assert done.code != 0
    assert "network_turbo" in done.said
    assert not list(box.behind("/root/autodl-tmp").glob("leasehold/active/*/out/main/result.json"))


def test_results_lie_on_the_file_storage_hashed_and_outlive_a_release(me: Front, box: AutodlBox) -> None:
    me.job(run="python looks.py", artifacts={"result.json": "json"})
    done = me.lease("run", "--on", BOX, *NO_SMOKE)
    assert done.code == 0, done.said
    assert f"copied and read back, in {SHARED}/leasehold/export/toy-" in done.said
    shared = box.region.shared
    (copy,) = shared.glob("leasehold/export/toy-*")
    home = (export(done) / "result.json").read_bytes()
    assert hashlib.sha256((copy / "cells/main/result.json").read_bytes()).digest() == hashlib.sha256(home).digest()
    assert (copy / "manifest.json").exists()
    box.power_off()
    box.release()
    assert (copy / "cells/main/result.json").read_bytes() == home


@pytest.mark.parametrize("box", [40], indirect=True)
def test_a_copy_that_runs_out_of_inodes_loses_nothing_and_resumes(me: Front, box: AutodlBox) -> None:
    """Bytes are plenty, inodes are not: a log line would have said `synced`."""
    me.job(run="python many.py", artifacts={"sample-*.json": "json"})
    refused = me.lease("run", "--on", BOX, *NO_SMOKE)
    assert refused.code == 3 and "inodes free on /root/autodl-fs" in refused.said, refused.said
    done = me.lease("run", "--on", BOX, *NO_SMOKE, "--skip-gate", "audit")
    assert done.code == 2, done.said
    assert "error[durable.not_copied]" in done.said
    assert "the copy to the durable tier failed" in done.said and "inodes" in done.said
    assert "training itself finished, so its results come home now" in done.said
    assert "receipt written" in done.said
    shared = box.region.shared
    assert not list(shared.glob("leasehold/export/toy-*"))
    shown = me.lease("status").out
    assert "failed" in shown and "home" in shown
    box.region.grow(1000)
    again = me.lease("run", "--on", BOX, *NO_SMOKE)
    assert again.code == 0, again.said
    assert "attempt 2" not in again.said, "it trained again"
    (copied,) = shared.glob("leasehold/export/toy-*")
    assert len(list(copied.rglob("sample-*.json"))) == 60


def test_the_plan_proposes_no_gpu_mode_for_what_must_be_fetched(me: Front, box: AutodlBox) -> None:
    me.job(run="python looks.py", artifacts={"result.json": "json"}, downloads=[{"from": "hf:a/b", "to": "b"}])
    said = me.lease("plan", "--on", BOX).out
    assert "no-gpu-mode (无卡模式)" in said and "lease run fetch" in said
