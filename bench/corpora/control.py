"""Prove that the canaries run where nothing stops them, and that the watch sees an act behind the readers' walls."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from .ask import trace_folder, watched_python
from .gather import ROOT, SCANNERS_PYTHON, alone

_LOAD = "import pickle,sys\nfor path in sys.argv[1:]:\n  try: pickle.load(open(path,'rb'))\n  except Exception: pass\n"
_CONFINED = """
import pickle, sys
sys.path.append({source!r})
from leasehold.lifecycle.confine import walls
walls.leave_network(reopens_files=False)
walls.forbid_new_privileges()
walls.limit_resources(10, 1 << 30, 16)
pickle.loads(b"cposixpath\\nisabs\\n.")
"""


def prove_canaries(canaries: Sequence[Path], place: Path) -> None:
    """Load each freely, away from the network; one that leaves no trace could show nothing of a scanner."""
    trace = _empty_trace(place)
    for path in canaries:
        subprocess.run([*alone(), str(SCANNERS_PYTHON), "-c", _LOAD, str(path)], capture_output=True, check=False)
        left = list(trace.iterdir())
        if not left:
            raise RuntimeError(f"the canary {path.name} left no trace when it was loaded")
        for each in left:
            each.rmdir() if each.is_dir() else each.unlink()


def prove_watch(place: Path) -> None:
    """Unpickle behind the walls of a confined reader: the watch has to see it."""
    trace = _empty_trace(place)
    program = place / "control.py"
    program.write_text(_CONFINED.format(source=str(ROOT / "src")))
    command = [str(watched_python(place)), "-I", "-S", "-B", str(program)]
    done = subprocess.run(command, capture_output=True, check=False)
    left = list(trace.iterdir())
    for each in left:
        each.rmdir()
    if not left:
        raise RuntimeError(f"the watch saw no unpickling behind the walls: {done.stderr.decode()[-500:]}")


def _empty_trace(place: Path) -> Path:
    trace = trace_folder(place)
    trace.mkdir(parents=True, exist_ok=True)
    trace.chmod(0o1777)
    for each in trace.iterdir():
        each.rmdir() if each.is_dir() else each.unlink()
    return trace
