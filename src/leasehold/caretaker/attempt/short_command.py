"""Run a short command in the platform's shell, hook included, and wait for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import Sequence, Tuple

from leasehold.caretaker.process.own_command import own_argv

from .platform_shell import Outfit, say_hook


def run_dressed(
    outfit: Outfit, argv: Sequence[str], timeout_s: float, given: bytes = b""
) -> Tuple["subprocess.CompletedProcess[bytes]", str]:
    """Return how it ended and, if the hook prevented it from starting, why; stdout and stderr are merged."""
    with tempfile.TemporaryDirectory(prefix="leasehold-hook-") as place:
        due = os.path.join(place, "due")
        dressed = outfit.dress(argv, own_argv("settle"), due)
        done = subprocess.run(
            dressed.argv, env=dressed.environ, cwd=_home(), input=given, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
        )  # fmt: skip
        with contextlib.suppress(FileNotFoundError):
            os.stat(due)
            lines = done.stdout.decode("utf-8", "replace").splitlines()
            return done, say_hook({"hook": outfit.hook, "code": done.returncode, "lines": lines})
    return done, ""


def _home() -> str:
    """Return the home folder, as a login has it; some containers name one that they do not have."""
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"
