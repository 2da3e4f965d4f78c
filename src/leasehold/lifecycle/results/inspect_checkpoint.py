"""Inspect a checkpoint without trusting it, and compute how often to write one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError, VerifyError
from leasehold.gates.care.other_files import judge_file
from leasehold.gates.start.resuming import judge_checkpoint
from leasehold.kit.files.checkpoint_folder import folder_kind
from leasehold.kit.tables.file_endings import guess_format, guess_kind
from leasehold.lifecycle.confine.check_loads import LoadRequest, LoadResult, check_loads
from leasehold.model.run.unread_files import reason as reason_unread
from leasehold.model.run.verdict import Verdict

_STEP = re.compile(r"step-\d+\.(safetensors|dcp)\Z")


@dataclass(frozen=True)
class Inspection:
    """What a checkpoint contains, and what that means for a resume."""

    path: str
    load: LoadResult
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {
            "path": self.path,
            **self.load.reading,
            "torch_load": self.load.torch_load,
            "confinement": list(self.load.confinement),
            **self.verdict.as_dict(),
        }


def inspect(path: Path) -> Inspection:
    """Read a file or folder in a confined process; a folder of our checkpoints stands for its newest."""
    chosen = _newest(path)
    if not chosen.exists():
        raise UserError("ckpt.absent", f"{path} is not there", hint="name a file, or a folder of checkpoints")
    form = "" if chosen.is_dir() else guess_format(chosen.name)
    load = _load(chosen, form or "checkpoint")
    if form and load.reading.get("kind") == "torch":  # torch.save wrote it under another extension
        form, load = "", _load(chosen, "checkpoint")
    if not load.ok:
        reader = "" if chosen.is_dir() or guess_kind(chosen.name) != "bytes" else reason_unread(chosen.name)
        seen = f": {reader}; as a checkpoint it does not load" if reader else " does not load"
        raise VerifyError("ckpt.unreadable", f"{chosen}{seen}: {load.reason}", hint="an older one may: look into each")
    keys, opaque, notes = (tuple(map(str, _list(load, name))) for name in ("keys", "opaque", "notes"))
    if form:
        return Inspection(str(chosen), load, judge_file(form, opaque, load.reading.get("numbers")))
    verdict = judge_checkpoint(str(load.reading.get("kind")), keys, opaque, notes, load.torch_load)
    return Inspection(str(chosen), load, verdict)


def _load(chosen: Path, kind: str) -> LoadResult:
    python = os.environ.get("LEASEHOLD_PYTHON") or None  # an interpreter with torch, for the second opinion
    return check_loads([LoadRequest(str(chosen), kind, allow_opaque=True)], python=python)[0]


def _list(load: LoadResult, name: str) -> list[object]:
    found = load.reading.get(name)
    return found if isinstance(found, list) else []


def _newest(path: Path) -> Path:
    if not path.is_dir() or folder_kind(str(path)):
        return path
    ours = sorted(name for name in os.listdir(path) if _STEP.fullmatch(name))
    if not ours:
        raise UserError("ckpt.none", f"{path} holds no checkpoint we know", hint="name the file itself")
    return path / ours[-1]
