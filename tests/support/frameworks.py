"""A Python that has torch or another framework, which the project's own .venv has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MADE = Path(__file__).resolve().parents[2] / ".venv-frameworks" / "bin" / "python"  # by `make frameworks`


def python_with(library: str) -> str:
    """Return an interpreter that has the library, or skip with what to do."""
    for python in (sys.executable, os.environ.get("LEASEHOLD_FRAMEWORK_PYTHON", ""), str(_MADE)):
        if not python or not os.path.exists(python):
            continue
        if library in ("", "plain"):
            return python
        asked = [python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec(%r) is None)" % library]
        if subprocess.run(asked, check=False).returncode == 0:
            return python
    pytest.skip("no Python with %s here: `make frameworks`, or name one with LEASEHOLD_FRAMEWORK_PYTHON" % library)
