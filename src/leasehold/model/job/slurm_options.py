"""Read `slurm:` of a job file, and format it as sbatch options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from leasehold.model.values.units import parse_duration, parse_size

from .job import Job
from .keys import SLURM_WORDS
from .known_keys import Bad, refuse_unknown

_WORD = re.compile(r"[A-Za-z0-9_.:,/@&|*()\[\]=+-]+\Z")
_OURS = (
    "array",
    "job-name",
    "comment",
    "output",
    "error",
    "signal",
    "requeue",
    "no-requeue",
    "open-mode",
    "wrap",
    "parsable",
)


def parse_slurm(value: Any, bad: Bad) -> dict[str, Any]:
    """Check the whole key."""
    if not isinstance(value, dict):
        raise bad("slurm", f"must be a mapping, not {type(value).__name__}", "slurm: {partition: gpu, time: 8h}")
    refuse_unknown(value, "slurm", SLURM_WORDS, bad, "; other options go below flags")
    found: dict[str, Any] = {}
    for key in ("partition", "account", "qos", "constraint", "gres"):
        if key in value:
            found[key] = _word(value[key], f"slurm.{key}", bad)
    for key, spell in (("time", _time), ("mem", _mem)):
        if key in value:
            found[key] = _spelled(value[key], f"slurm.{key}", spell, bad)
    for key, most in (("cpus", 4096), ("chain", 50)):
        if key in value:
            found[key] = _count(value[key], key, most, bad)
    for key in ("modules", "flags", "image_flags"):
        if key in value:
            found[key] = _words(value[key], f"slurm.{key}", bad)
    if "after" in value:
        listed = value["after"] if isinstance(value["after"], list) else [value["after"]]
        found["after"] = _words(listed, "slurm.after", bad)
    if "image" in value:
        found["image"] = _image(value["image"], bad)
    for flag in found.get("flags", ()):
        _check_flag(flag, bad)
    return found


def slurm_options(job: Job) -> dict[str, Any]:
    """Combine the job's Slurm options with its other settings."""
    cards: dict[str, Any] = {}
    if job.gpu and "gres" not in job.slurm:
        named = {"gpu_name": job.gpu.name, "gpu_count": job.gpu.count} if job.gpu.name else {}
        cards = {"gres": f"gpu:{job.gpu.count}", **named}
    return {**cards, **job.slurm, "at_once": job.at_once, "write_s": job.checkpoint.write_s}


def _word(value: Any, key: str, bad: Bad) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool) or not _WORD.match(str(value)):
        raise bad(key, f"must be one word as sbatch takes it, not {value!r}", "")
    return str(value)


def _count(value: Any, key: str, most: int, bad: Bad) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise bad(f"slurm.{key}", f"must be a whole number from 1 to {most}, not {value!r}", f"{key}: 8")
    return value


def _image(value: Any, bad: Bad) -> str:
    if not isinstance(value, str) or not value.strip() or value.startswith("-") or not value.isprintable():
        hint = "image: /scratch/me/torch.sif, or docker://pytorch/pytorch@sha256:… (a tag may move)"
        raise bad("slurm.image", f"must be a path on the cluster or a URI, not {value!r}", hint)
    return value


def _words(value: Any, key: str, bad: Bad) -> list[str]:
    if not isinstance(value, list):
        raise bad(key, f"must be a list, not {type(value).__name__}", f"{key.split('.')[1]}: [one, two]")
    return [_word(item, key, bad) for item in value]


def _check_flag(flag: str, bad: Bad) -> None:
    if not flag.startswith("--"):
        raise bad("slurm.flags", f"{flag!r} must be written out", "--exclude=node7, not -x node7")
    if flag.startswith("--dependency"):
        raise bad("slurm.flags", "--dependency has a key of its own", "after: pretrain, or after: [afterany:12345]")
    if flag[2:].split("=")[0] in _OURS:
        raise bad("slurm.flags", f"{flag.split('=')[0]} is ours: resuming and accounting rest on it", "leave it out")


def _spelled(value: Any, key: str, spell: Callable[[str], str], bad: Bad) -> str:
    if not isinstance(value, str):
        raise bad(key, f"needs its unit, as text; seen {value!r}", "")
    try:
        return spell(value)
    except ValueError as error:
        raise bad(key, str(error), "") from None


def _time(text: str) -> str:
    minutes = max(1, round(parse_duration(text) / 60))
    days, rest = divmod(minutes, 1440)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}:00"


def _mem(text: str) -> str:
    return f"{max(1, parse_size(text) >> 20)}M"
