"""tools/check_facts.py: every rule can fail, and the profiles that ship pass."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_facts.py"
NOVEMBER_2026 = 1794700000.0

_spec = importlib.util.spec_from_file_location("check_facts", TOOL)
assert _spec is not None and _spec.loader is not None
check_facts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_facts)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def copied(folder: Path, *names: str) -> Path:
    """Copy some of the profiles that ship; the check of one needs no other."""
    for name in names:
        shutil.copy(check_facts.SHIPPED / f"{name}.yaml", folder)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def test_the_profiles_that_ship_pass():
    assert check_facts.problems(check_facts.SHIPPED, NOVEMBER_2026) == []


def test_every_platform_that_is_missing_is_named(folder):
    found = check_facts.problems(copied(folder, "local"), NOVEMBER_2026)
    assert len(check_facts.WANTED) == 16
    assert [line.partition(".yaml: missing")[0] for line in found] == [
        name for name in check_facts.WANTED if name != "local"
    ]


@pytest.mark.parametrize(
    "name, old, new, said",
    [
        ("runpod", "    source: manage\n", "", "source is missing"),
        ("runpod", "verified: 2026-08", "verified: 2026-12", "lies in the future"),
        ("autodl", "      outcome: refuse\n", "      outcome: perhaps\n", "must be one of refuse, warn"),
        ("autodl", "commands: [conda create,", "commands: [/bin/conda create,", "must be words such as"),
        ("lambda", "      source: stack\n", "", "source is missing"),
        ("autodl", "cap_bytes: 200GB", "cap_bytes: much", "cap_bytes must be a size such as 200GB"),
        ("autodl", "cap_inodes: 200000", "cap_inodes: 0.5", "cap_inodes must be a whole number"),
        ("runpod", "verified: 2026-08", "verified: 2027-01", "lies in the future"),
        ("runpod", "egress: free both ways", "egress: costs 0.12 USD a GB", "a price without a source"),
        ("lanrui", "egress: free", "egress: 0.8元 a GB", "a price without a source"),
        ("vastai", "keys: an SSH key", "keys: it deletes your files; an SSH key", "a deletion without a source"),
        ("vastai", "billing_source: billing\n", "", "billing_source"),
        ("runpod", "title: RunPod pod", "title: RunPod pod hf_AbCdEfGhIjKlMnOpQrStUvWx", "key or token"),
        ("runpod", "boot: 2min", "boot: 2min\nnotes: [the key is 0123456789abcdef0123456789abcdef]", "key or token"),
        ("runpod", "[RP1, RP2", "[rp-one, RP2", "'rp-one' is no catalogue id"),
        ("gpushare", "    native: 关机\n", "", "verbs[power-off].native"),
        ("matpool", "native: 停止并释放", "native: stop", "verbs[release].native"),
        ("autodl", "    native: 释放\n", "    native: release it\n", "verbs[release].native"),
        ("rehearsal", "sources:\n", "sources:\n  spare: {url: https://a.example, verified: 2026-08, confidence: own}\n",
         "sources.spare: no fact names it"),
        ("matpool", "    note: read second-hand; the vendor's own pages were not to be had\n", "",
         "without a note"),
        ("kaggle", "    survives: {stop: no, destroy: no, balance_zero: no}\n", "", "survives"),
        ("kaggle", "    kind: end\n", "    kind: vanish\n", "kind"),
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_fact_is_found_in_its_file(folder, name, old, new, said):
    edit(copied(folder, name) / f"{name}.yaml", old, new)
    found = check_facts.problems(folder, NOVEMBER_2026)
    assert any(line.startswith(f"{name}.yaml: ") and said in line for line in found), found


def test_what_is_inherited_is_judged_too(folder):
    edit(copied(folder, "autodl", "autodl-pro") / "autodl.yaml", "    native: 释放\n", "")
    assert any("autodl-pro.yaml: verbs[release].native" in line for line in check_facts.problems(folder, NOVEMBER_2026))


def test_a_file_that_is_no_profile_is_one_problem_and_the_rest_is_checked(folder):
    (copied(folder, "runpod", "runpod-volume") / "slurm.yaml").write_text("[", "utf-8")
    edit(folder / "runpod.yaml", "[RP1, RP2", "[rp-one, RP2")
    found = check_facts.problems(folder, NOVEMBER_2026)
    wrong = {line.partition(":")[0] for line in found if "missing; every" not in line}
    assert wrong == {"slurm.yaml", "runpod.yaml", "runpod-volume.yaml"}


def test_the_command_fails_and_says_why(folder):
    edit(copied(folder, "runpod") / "runpod.yaml", "egress: free both ways", "egress: 0.12 USD a GB")
    run = subprocess.run([sys.executable, str(TOOL), str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "runpod.yaml: network.egress: a price without a source" in run.stderr
    assert subprocess.run([sys.executable, str(TOOL)], capture_output=True, check=False).returncode == 0
