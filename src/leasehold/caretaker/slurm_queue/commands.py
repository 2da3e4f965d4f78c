"""Run Slurm's own commands: with time limits, in plain output formats, never as another user."""

from __future__ import annotations

import os
import subprocess
import time
from typing import List

_TIMEOUT_S = 60.0
_TRIES = 3
_TRY_AFTER_S = 0.5
_PLACES = (  # where sites keep Slurm that a non-login shell does not search
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/usr/local/bin",
    "/cm/shared/apps/slurm/current/bin",
    "/cm/local/apps/slurm/current/bin",
)
_SAYS_DOWN = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Problem talking to the database",
    "authentication credential",  # an answer that lay too long, since its reader was busy
    "Protocol authentication error",
)


class SlurmDown(Exception):
    """The controller did not answer: nothing is known, and nothing may be concluded."""


class SlurmRefused(Exception):
    """Slurm answered with a refusal; str() is its text."""


def ask(argv: List[str], text: str = "", timeout_s: float = _TIMEOUT_S) -> str:
    """Run one command and return what it printed."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SBATCH_", "SQUEUE_", "SACCT_"))}
    path = os.pathsep.join([environ.get("PATH", os.defpath), *_PLACES])
    environ.update(LC_ALL="C", SLURM_TIME_FORMAT="%s", PATH=path)
    try:
        done = subprocess.run(
            argv, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ,
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except (FileNotFoundError, PermissionError):  # the latter where a folder of the PATH may not be read
        raise SlurmRefused("there is no %s on this machine: is it a login node of the cluster?" % argv[0]) from None
    except subprocess.TimeoutExpired:
        raise SlurmDown("%s did not answer in %g s" % (argv[0], timeout_s)) from None
    if done.returncode == 0:
        return (done.stdout or done.stderr).decode("utf-8", "replace")  # --test-only answers on the other one
    said = " ".join(done.stderr.decode("utf-8", "replace").split())[:400] or "exit code %d" % done.returncode
    if any(word in said for word in _SAYS_DOWN):
        raise SlurmDown(said)
    raise SlurmRefused(said)


def ask_accounts(argv: List[str]) -> str:
    """Run sacct, with retries while the accounting daemon is silent for a moment: what it does not report is lost."""
    for number in range(1, _TRIES):
        try:
            return ask(argv)
        except SlurmDown:
            time.sleep(_TRY_AFTER_S * number)
    return ask(argv)
