"""The metric of a checkpoint, where its writer left one: our index, a Trainer's state, or the file's own name."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Optional

from leasehold.kit.files.atomic import read_json

from .found_states import Candidate

_MOST_BYTES = 64 << 20


def metric_of(out: str, state: Candidate, metric: str) -> Optional[float]:
    """Return a state's value of the metric; None if nothing there says it."""
    if not metric:
        return None
    for found in (_in_index(out, state, metric), _in_trainer_state(out, state, metric), _in_name(state, metric)):
        if found is not None:
            return found
    return None


def is_better(new: Optional[float], old: Optional[float], mode: str) -> bool:
    """Return whether a value beats the best so far; one that is not known, or no number, beats nothing."""
    if new is None:
        return False
    return old is None or (new > old if mode == "max" else new < old)


def _in_index(out: str, state: Candidate, metric: str) -> Optional[float]:
    """Read the index that our Checkpointer keeps beside its checkpoints."""
    beside = os.path.dirname(os.path.join(out, state.name))
    listed = _mapping((_read(os.path.join(beside, "index.json"))).get("checkpoints"))
    entry = _mapping(listed.get(str(state.step))) if state.step is not None else {}
    return _number(_mapping(entry.get("metrics")).get(metric))


def _in_trainer_state(out: str, state: Candidate, metric: str) -> Optional[float]:
    """Read the log of Hugging Face's Trainer up to this checkpoint; it writes `eval_loss` for `loss`."""
    if state.kind != "folder":
        return None
    history = _read(os.path.join(out, state.root, "trainer_state.json")).get("log_history")
    names = (metric, "eval_" + metric)
    found = [
        _number(line[name])
        for line in (history if isinstance(history, list) else [])
        if isinstance(line, dict)
        for name in names
        if name in line
    ]
    return found[-1] if found else None


def _in_name(state: Candidate, metric: str) -> Optional[float]:
    """Read a name such as epoch=3-val_loss=0.21.ckpt, as Lightning writes it."""
    shown = re.escape(metric.replace("/", "_"))
    match = re.search(r"(?:^|[^A-Za-z0-9_])%s[=_-](-?\d+(?:\.\d+)?(?:e-?\d+)?)" % shown, os.path.basename(state.name))
    return _number(float(match.group(1))) if match else None


def _read(path: str) -> Dict[str, Any]:
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            return {}
        return read_json(path) or {}
    except (OSError, json.JSONDecodeError):
        return {}


def _mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> Optional[float]:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
    return float(value) if good else None
