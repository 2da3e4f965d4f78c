"""What `lease plan` and `lease platforms` show, for every platform that ships: kept, and read by a person."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leasehold.facts import profiles
from leasehold.shells.cli.main import main

GOLDEN = Path(__file__).parent / "golden_plans"
JOB = """
name: resnet
run: python train.py
resources: {gpu: {memory: 24GB+}, disk: 40GB}
artifacts: {best.pt: torch}
scratch: [last.pt]
checkpoint: {path: last.pt, size: 3GB, write_time: 30s, step_time: 2s}
expect: 8h
budget: 20USD
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, place in (("LEASEHOLD_HOME", "home"), ("LEASEHOLD_CONFIG", "config"), ("HOME", "user")):
        monkeypatch.setenv(name, str(tmp_path / place))
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lease.yaml").write_text(JOB)
    monkeypatch.chdir(folder)
    return folder


def same_as_kept(name: str, text: str) -> None:
    kept = GOLDEN / name
    if os.environ.get("LEASEHOLD_GOLDEN") == "write":
        kept.write_text(text, "utf-8")
    assert kept.exists(), f"no golden {kept}; LEASEHOLD_GOLDEN=write keeps what is shown now"
    assert text == kept.read_text("utf-8"), f"{kept} differs; if that is right: LEASEHOLD_GOLDEN=write"


@pytest.mark.parametrize("platform", profiles.names())
def test_the_plan_of_every_platform(project: Path, platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", "--on", platform, "--price", "2.5USD/h", "--balance", "100USD", "--from", "2026-11-15"])
    said = capsys.readouterr()
    assert said.err == ""
    same_as_kept(f"{platform}.txt", f"exit {code}\n{said.out}")


@pytest.mark.parametrize("platform", profiles.names())
def test_json_says_the_same_on_every_day(project: Path, platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    sheets = []
    for day in ("2026-11-15", "2026-12-24T18:00Z"):
        main(["plan", "--on", platform, "--json", "--price", "2.5USD/h", "--from", day])
        sheets += json.loads(capsys.readouterr().out)["plans"]
    assert sheets[0]["sheet_sha256"] == sheets[1]["sheet_sha256"]
    assert sheets[0]["at"] != sheets[1]["at"]


@pytest.mark.parametrize("platform", profiles.names())
def test_the_first_three_lines_are_what_to_know(
    project: Path, platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["platforms", "show", platform]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["stops the meter", "deletes", "next clock"]
    assert any(line.startswith("TIER") for line in lines)
    assert "sources" in lines


def test_every_platform_side_by_side(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--on", "all", "--from", "2026-11-15"])
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in profiles.names())


def test_a_platform_of_ones_own_is_listed_and_planned(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project / ".leasehold" / "profiles"
    folder.mkdir(parents=True)
    (folder / "moon.yaml").write_text("extends: rehearsal\nid: moon\ntitle: a moon base\nlandlord: person\n")
    main(["platforms"])
    assert "moon " in capsys.readouterr().out
    assert main(["plan", "--on", "moon"]) == 3, "its disk goes with it, and the job takes 8 h"
    assert "moon: a moon base" in capsys.readouterr().out


def test_an_overlay_with_a_mistake_is_named_with_its_file_and_key(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project.parent / "config" / "profiles"
    folder.mkdir(parents=True)
    (folder / "autodl.yaml").write_text("tiers:\n  - {name: data disk, survives: {stop: maybe}}\n")
    assert main(["platforms", "show", "autodl"]) == 2
    said = capsys.readouterr().err
    assert "error[platform.overlay_invalid]" in said
    assert "config/profiles/autodl.yaml: tiers[data disk].survives.stop must be one of yes, no, unknown" in said


def test_old_facts_are_listed_with_their_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["platforms", "check", "autodl", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["doubtful"]
    assert found
    assert all(item["why"] and item["url"].startswith("https://") for item in found)
    assert main(["platforms", "check", "local"]) == 0


@pytest.mark.parametrize(
    "words, said",
    [
        (["plan", "--on", "autodi"], "did you mean autodl?"),
        (["run", "--on", "vastai"], "there is no key for vastai"),
    ],
)
def test_a_name_that_is_no_box_is_answered_with_what_was_meant(
    project: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_the_hint_of_a_bad_image_shows_a_digest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "lease.yaml").write_text(JOB + "slurm: {image: '-x'}\n")
    assert main(["plan", "--on", "slurm"]) == 2
    said = capsys.readouterr().err
    assert "docker://pytorch/pytorch@sha256:" in said and ":latest" not in said
