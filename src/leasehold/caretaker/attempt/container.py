"""Run a cell's commands inside an Apptainer or Singularity image; the caretaker itself stays outside."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from leasehold.caretaker.run.run_folder import RunFolder

_RUNTIMES = ("apptainer", "singularity")
# The image is read-only and brings its own frameworks: set-up may only add to the cell's own working copy.
_WITH_SETUP = (
    'run=$1 done=$2 setup=$3; [ -e "$done" ] || { sh -c "$setup" && : > "$done"; } || exit $?; exec sh -c "$run"'
)


def in_image(folder: RunFolder, plan: Dict[str, Any], cell: str, line: str) -> List[str]:
    """Build the command line that runs a shell line inside the job's image; our folders keep their paths."""
    wishes, job = plan["slurm"], plan["job"]
    inside = ["/bin/sh", "-c", line]
    if job.get("setup"):
        inside = ["/bin/sh", "-c", _WITH_SETUP, "sh", line, folder.setup_done(cell), job["setup"]]
    binds = [os.path.realpath(folder.root), *filter(os.path.isdir, [os.environ.get("TMPDIR", "")])]
    cards = ["--nv"] if wishes.get("gres") or wishes.get("gpu_name") else []
    flags = [str(flag) for flag in wishes.get("image_flags") or []]
    where = [word for place in dict.fromkeys([folder.root, *binds]) for word in ("--bind", place)]
    return [runtime(), "exec", *cards, *where, "--pwd", folder.work(cell), *flags, str(wishes["image"]), *inside]


def runtime() -> str:
    """Find the program, environment modules included; report a node that has neither."""
    for name in _RUNTIMES:
        for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(place, name)
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    raise FileNotFoundError("neither apptainer nor singularity is on this node's PATH: see slurm.modules")
