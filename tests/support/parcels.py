"""A box that has our program already, compiled: unpacking and compiling it again costs each life 0.3 s of a core."""

from __future__ import annotations

import atexit
import compileall
import functools
import io
import shutil
import tempfile
import zipfile
from pathlib import Path

from leasehold.transport.parcel import build


def stock(root: Path) -> None:
    """Put the parcel into an empty root, as an earlier connection would have left it."""
    shutil.copytree(_made(), root / "caretaker")


@functools.lru_cache(maxsize=None)
def _made() -> Path:
    """Unpack and compile once a process; a copy keeps the times that bytecode is checked by."""
    folder = Path(tempfile.mkdtemp(prefix="lh-parcel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    parcel = build()
    place = folder / parcel.sha256
    zipfile.ZipFile(io.BytesIO(parcel.data)).extractall(place)
    assert compileall.compile_dir(place, quiet=1)
    return folder
