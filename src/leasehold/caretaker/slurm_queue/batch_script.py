"""Write the batch script of a job array and the options for its submission."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

from leasehold.caretaker.run.run_folder import RunFolder

NAME = "lease-"
JITTER_S = 60  # Slurm may send the early signal this much too soon
_LEAST_LEAD_S = 90
_TIME = re.compile(r"(?:(\d+)-)?(\d+(?::\d+){0,2})\Z")


def options(folder: RunFolder, wishes: Dict[str, Any], count: int, tag: str) -> List[str]:
    """List sbatch's options for an array of so many cells."""
    at_once = int(wishes.get("at_once") or 0)
    found = [
        "--job-name=" + NAME + folder.run,
        "--comment=" + tag,
        "--array=0-%d%s" % (count - 1, "%%%d" % at_once if 0 < at_once < count else ""),
        "--output=" + os.path.join(folder.path, "slurm").replace("%", "%%") + "/%A_%a.out",
        "--open-mode=append",
        "--requeue",
        "--signal=B:TERM@%d" % lead_s(wishes),
        "--ntasks=1",
    ]
    for key in ("partition", "account", "qos", "time", "mem", "constraint", "gres"):
        if wishes.get(key):
            found.append("--%s=%s" % (key, wishes[key]))
    if wishes.get("cpus"):
        found.append("--cpus-per-task=%d" % int(wishes["cpus"]))
    return found + list(wishes.get("flags") or [])  # home has refused those that resuming depends on


def lead_s(wishes: Dict[str, Any]) -> int:
    """Return how long before the wall the task is signalled: time to write a checkpoint, and Slurm's own jitter."""
    return int(max(_LEAST_LEAD_S, float(wishes.get("write_s") or 0.0) * 1.5 + JITTER_S))


def walls(wishes: Dict[str, Any]) -> List[str]:
    """Format the task's lead before its wall and the length of the wall; 0 where the site decides."""
    return [str(lead_s(wishes)), str(seconds_of(str(wishes.get("time") or "")) or 0)]


def script(folder: RunFolder, wishes: Dict[str, Any], own: List[str]) -> str:
    """Write the script: modules as the site wants them, then our caretaker in the place of the shell."""
    import shlex  # here: a task reads its lead from this module, and writes no script

    lines = [
        "#!/bin/sh",
        "# Leasehold wrote this for %s; the options it was submitted with lie beside it." % folder.run,
    ]
    if wishes.get("modules"):
        lines += [
            "command -v module >/dev/null 2>&1 || for f in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh"
            ' /usr/share/lmod/lmod/init/sh; do [ -r "$f" ] && . "$f"; done',
            *("module load %s || exit 1" % shlex.quote(str(name)) for name in wishes["modules"]),
        ]
    lines += [  # from 22.05 on srun takes neither from sbatch (Slurm release notes)
        '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
        *(["export SLURM_GRES=%s" % shlex.quote(wishes["gres"])] if wishes.get("gres") else []),
        "exec %s" % " ".join(shlex.quote(word) for word in own),
    ]
    return "\n".join(lines) + "\n"


def seconds_of(text: str) -> Optional[int]:
    """Read a time in Slurm's format: minutes[:seconds], h:m:s, or days-h[:m[:s]]; None is no limit."""
    found = _TIME.match(text)
    if found is None:
        return None
    days, parts = found.group(1), [int(part) for part in found.group(2).split(":")]
    if days is None and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
