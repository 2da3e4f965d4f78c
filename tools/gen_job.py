"""Write docs/job-keys.md and docs/job.schema.json from the keys of the job file."""

from __future__ import annotations

import json
import sys

from written import written

from leasehold.model.job import keys
from leasehold.model.job.keys import Word


def page() -> str:
    """Format the page of keys."""
    lines = [
        "# Every key of a job file",
        "",
        "Generated from the parser's keys by `make docs`. For editors: `job.schema.json` beside this page; put",
        "`# yaml-language-server: $schema=…/job.schema.json` on the first line of your file.",
        "",
        *_table("", keys.WORDS),
        "",
        "## artifacts: one entry",
        "",
        *_table("", keys.ARTIFACT_WORDS),
        "",
        "## resume",
        "",
        *_table("", keys.RESUME_WORDS),
        "",
        "## downloads: one entry",
        "",
        *_table("", keys.DOWNLOAD_WORDS),
        "",
        "## data: one entry",
        "",
        *_table("", keys.DATA_WORDS),
        "",
        "## resources",
        "",
        *_table("", keys.RESOURCE_WORDS),
        "",
        "## resources.gpu",
        "",
        *_table("", keys.GPU_WORDS),
        "",
        "## checkpoint",
        "",
        *_table("", keys.CHECKPOINT_WORDS),
        "",
        "## budget, when it is a mapping",
        "",
        *_table("", keys.BUDGET_WORDS),
        "",
        "## notify",
        "",
        *_table("", keys.NOTIFY_WORDS),
        "",
        "## slurm",
        "",
        *_table("", keys.SLURM_WORDS),
    ]
    return "\n".join(lines) + "\n"


def _table(prefix: str, words: tuple[Word, ...]) -> list[str]:
    lines = ["| key | meaning | example |", "|---|---|---|"]
    for word in words:
        needed = " **(needed)**" if word.required else ""
        example = f"`{word.example}`" if word.example else ""
        lines.append(f"| `{prefix}{word.name}`{needed} | {word.meaning.replace('|', chr(92) + '|')} | {example} |")
    return lines


if __name__ == "__main__":
    schema = json.dumps(keys.json_schema(), indent=2) + "\n"
    sys.exit(written("docs/job-keys.md", page()) or written("docs/job.schema.json", schema))
