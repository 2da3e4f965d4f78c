"""A checkpoint's metadata: the position, the random states of every process, and facts that a reader sees at once."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, List, Mapping, Optional

OURS = "leasehold"


def with_ours(shared: Dict[str, Any], place: Any, best: Optional[float], locals_: List[Any]) -> Dict[str, Any]:
    """Combine the parts and our own values."""
    ours = {"step": place.step, "epoch": place.epoch, "metrics": place.metrics, "best": best, "ranks": locals_}
    return {**shared, OURS: ours}


def facts_of(place: Any, parts: Mapping[str, Any], pickled: List[str], locals_: List[Any]) -> Dict[str, str]:
    """Return the facts that are readable without loading anything."""
    torch = sys.modules.get("torch")
    facts = {
        "step": str(place.step),
        "epoch": "" if place.epoch is None else repr(place.epoch),
        "metrics": json.dumps(place.metrics),
        "parts": json.dumps(sorted(parts)),
        "rng": json.dumps(sorted(locals_[0]["rng"])),
        "world": str(len(locals_)),
        "pickled": json.dumps(pickled[:100]),
        "run": os.environ.get("LEASE_RUN", ""),
        "written_unix": "%.3f" % time.time(),
    }
    if torch is not None:
        facts.update(format="pt", torch=str(torch.__version__))
    return facts
