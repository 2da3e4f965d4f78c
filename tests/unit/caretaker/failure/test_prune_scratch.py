"""Only what the job calls scratch goes, only below the cell's folder, and never best, last or what was promised."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.failure import prune_scratch
from leasehold.caretaker.run.run_folder import RunFolder
from tests.unit.caretaker.run_folders import make, put


def pruned(folder: RunFolder, capfd: pytest.CaptureFixture[str]) -> Dict[str, Any]:
    prune_scratch.prune(folder, "main")
    return dict(json.loads(capfd.readouterr().out))


def left(folder: RunFolder) -> List[str]:
    root = Path(folder.out("main"))
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_scratch_goes_and_the_rest_stays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["metrics.json"], scratch=["tmp/**"])
    for name in ("tmp/a.bin.part", "tmp/deep/b", "metrics.json", "other.log"):
        put(folder, name, "x" * 5000)
    answer = pruned(folder, capfd)
    assert left(folder) == ["metrics.json", "other.log"]
    assert answer["files"] == 2
    assert answer["freed_bytes"] >= 10_000


def test_best_and_last_stay_whatever_the_patterns_say(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["metrics.json"], scratch=["ckpt/*.pt"])
    for number in range(1, 6):
        put(folder, "ckpt/step-%d.pt" % number, at=1_600_000_000 + number)
    put(folder, "ckpt/best.pt", at=1_500_000_000)
    answer = pruned(folder, capfd)
    assert left(folder) == ["ckpt/best.pt", "ckpt/step-5.pt"]
    assert answer["kept"] == ["ckpt/best.pt", "ckpt/step-5.pt"]


def test_the_last_sharded_checkpoint_stays_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["metrics.json"], scratch=["ckpt/**"])
    for step in (1, 2):
        for rank in (0, 1):
            put(folder, "ckpt/step-%d.dcp/__%d_0.distcp" % (step, rank), at=1_600_000_000 + 10 * step + rank)
    pruned(folder, capfd)
    assert left(folder) == ["ckpt/step-2.dcp/__0_0.distcp", "ckpt/step-2.dcp/__1_0.distcp"]


def test_a_promised_artifact_is_never_scratch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["tmp/metrics.json"], scratch=["**"])
    put(folder, "tmp/metrics.json")
    put(folder, "tmp/other")
    pruned(folder, capfd)
    assert left(folder) == ["tmp/metrics.json"]


def test_nothing_outside_the_cells_folder_is_reached(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["metrics.json"], scratch=["tmp/**"])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    os.symlink(str(outside), os.path.join(folder.out("main"), "tmp"))
    pruned(folder, capfd)
    assert (outside / "mine").exists()


def test_odd_names_go_too(tmp_path: Path, odd_name: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["metrics.json"], scratch=["tmp/**"])
    put(folder, "tmp/" + odd_name)
    assert pruned(folder, capfd)["files"] == 1
    assert left(folder) == []
