"""Take every reading of a box that home needs before a launch, once."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from leasehold.caretaker.machine import limits

_TOOLS = ("tmux", "rsync", "git", "curl", "fuser", "lsof", "systemctl", "nvidia-smi", "python3", "python")


def take(paths: List[str]) -> Dict[str, Any]:
    """Read everything once; what cannot be read is absent or None, never invented."""
    import resource  # both lazily: the patrol lives long, reads memory alone, and must stay small
    import shutil

    from leasehold.caretaker.gpu import nvidia_smi

    gpus, problem = nvidia_smi.overview()
    health = None
    if gpus:
        from leasehold.caretaker.gpu.card_survey import at_a_glance

        health = at_a_glance()
    if any(card.get("memory_used_bytes") for card in gpus):
        from leasehold.caretaker.gpu.card_holders import on_cards  # only where a process is

        gpus = on_cards(gpus)
    return {
        "disks": [limits.disk(path) for path in paths],
        "memory": limits.memory(),
        "cpu": limits.cpu(),
        "shm": limits.disk("/dev/shm") if os.path.isdir("/dev/shm") else None,
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "gpus": gpus,
        "gpu_problem": problem,
        "gpu_health": health,
        "tools": {name: shutil.which(name) for name in _TOOLS},
    }
