"""docs/unchanged-code.md shows what `lease init` really writes for the projects it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from leasehold.gates.start.planning import promised
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.write.write import write_job
from leasehold.lifecycle.project.job_yaml import parse_text

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "unchanged-code.md").read_text("utf-8")
STYLES = {
    "nano": "Flags in the nanoGPT manner",
    "package": "A package with its scripts in projects/",
    "hf": "A Hugging Face example script",
    "lightning": "Lightning",
    "classic": "The classic torch example",
    "hydra": "A Hydra template",
    "accelerate": "Accelerate without a trainer",
}


@pytest.mark.parametrize("name", STYLES)
def test_each_block_is_the_draft(name: str) -> None:
    section = PAGE.partition(f"## {STYLES[name]}\n")[2].partition("\n## ")[0]
    block = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    shown = yaml.safe_load(block)
    drafted = yaml.safe_load(write_job(look_at(ROOT / "tests" / "support" / "unchanged" / name)))
    assert shown == {key: value for key, value in drafted.items() if key not in ("name", "progress")}
    job = parse_text(write_job(look_at(ROOT / "tests" / "support" / "unchanged" / name)), "lease.yaml")
    assert promised(job, job.checkpoint.path), "else the plan gate refuses a box whose disk goes with it"
    for word in ("Edited:", "Resume:", "Data:", "Smoke:"):
        assert re.search(rf"\b{word}\s+\S", section)
