"""Read what `checkpoint:` says of the refuge: where checkpoints are copied in training, and how many stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from .job import CheckpointFacts

DURABLE, HOME, NONE = "durable", "home", "none"
MODES = ("min", "max")
MOST_KEPT = 1000
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_METRIC = re.compile(r"[\w./@-]{1,80}\Z")
_HINT = "refuge: durable, or a list in order: [durable, s3://bucket/prefix, home]; none for no copies"

Bad = Callable[..., Exception]


def read_refuge(facts: Mapping[str, Any], known: CheckpointFacts, bad: Bad) -> CheckpointFacts:
    """Add refuge, keep, best and because to the facts; `bad` makes the error for a key."""
    keep = facts.get("keep", 0)
    if isinstance(keep, bool) or not isinstance(keep, int) or ("keep" in facts and not 1 <= keep <= MOST_KEPT):
        raise bad("checkpoint.keep", f"must be a whole number from 1 to {MOST_KEPT}", "keep: 2")
    metric, mode = _best(facts.get("best"), bad)
    because = facts.get("because", "")
    if not isinstance(because, str) or ("because" in facts and not because.strip()) or len(because) > 1000:
        raise bad("checkpoint.because", "must be a sentence", 'because: "it repeats in an hour"')
    return CheckpointFacts(
        known.path,
        known.size_bytes,
        known.write_s,
        known.step_s,
        refuge=_refuges(facts.get("refuge"), bad),
        every_s=known.every_s,
        rate_bytes=known.rate_bytes,
        keep=keep,
        best_metric=metric,
        best_mode=mode,
        because=because.strip(),
    )


def _refuges(value: Any, bad: Bad) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(item, str) for item in listed):
        raise bad("checkpoint.refuge", "must be a word or a list of words", _HINT)
    for item in listed:
        why = "" if item in (DURABLE, HOME, NONE) else _why_no_bucket(item)
        if why:
            raise bad("checkpoint.refuge", f"{item!r}: {why}", _HINT)
    if len(set(listed)) != len(listed) or (NONE in listed and len(listed) > 1):
        raise bad("checkpoint.refuge", f"{', '.join(listed)}: each at most once, and none alone", _HINT)
    return tuple(listed)


def _why_no_bucket(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme != "s3":
        return "is not durable, home, none or an s3:// address"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "holds more than a bucket and a prefix; keys are given as secrets"
    return "" if _BUCKET.match(parts.netloc) else f"{parts.netloc!r} is not a bucket's name"


def _best(value: Any, bad: Bad) -> tuple[str, str]:
    if value is None:
        return "", MODES[0]
    known = {"metric": value} if isinstance(value, str) else value
    if not isinstance(known, dict) or set(known) - {"metric", "mode"}:
        raise bad("checkpoint.best", "must be {metric, mode}", "best: {metric: val_loss, mode: min}")
    metric, mode = known.get("metric"), known.get("mode", MODES[0])
    if not isinstance(metric, str) or not _METRIC.match(metric):
        raise bad("checkpoint.best.metric", "must be the name of a metric", "best: {metric: val_loss, mode: min}")
    if mode not in MODES:
        raise bad("checkpoint.best.mode", f"must be {' or '.join(MODES)}", "best: {metric: val_loss, mode: min}")
    return metric, mode
