"""The parcel: kit and caretaker as one zip whose name is its hash."""

from __future__ import annotations

import functools
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

_ROOMS = ("kit", "caretaker", "checkpoint")
# On a full disk Python (3.11 was seen to) renames a half-written cache of bytecode into place, and nobody can import
# that module again: on a disk that is nearly full none is written.
_MAIN = """\
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
if sys.path[:1] != [here]:  # started by the name of this file: a folder's name costs Python 5 ms more
    sys.path.insert(0, here)
disk = os.statvfs(here)
sys.dont_write_bytecode = disk.f_bavail * disk.f_frsize < 32 << 20
from leasehold.caretaker.entry import main

sys.exit(main(sys.argv[1:]))
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Parcel(NamedTuple):
    """Bytes to ship and the name they go by."""

    sha256: str
    data: bytes


@functools.cache
def build() -> Parcel:
    """Pack the on-box rooms; equal sources give equal bytes on every home."""
    house = resources.files("leasehold")
    files = {"__main__.py": _MAIN.encode(), "leasehold/__init__.py": b""}
    for room in _ROOMS:
        folder = house.joinpath(room)
        if folder.is_dir():
            files.update(_sources(folder, "leasehold/" + room))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])
    data = buffer.getvalue()
    return Parcel(hashlib.sha256(data).hexdigest(), data)


def boot_command() -> str:
    """Spell the boot line."""
    return shell_line("boot.sh")


def shell_line(name: str) -> str:
    """Spell a script of ours as one shell word list that every login shell passes on unread."""
    text = resources.files("leasehold.transport").joinpath(name).read_text()
    lines = [line.strip() for line in text.splitlines()]
    joined = " ".join(line for line in lines if line and not line.startswith("#"))
    assert not set(joined) & set("'!\\"), "the line must survive every shell's quoting"
    return f"exec sh -c '{joined}'"


def unpacker() -> bytes:
    """Return the program that a box without the parcel runs first."""
    return resources.files("leasehold.transport").joinpath("unpack.py").read_bytes()


def run_door(words: list[str], body: bytes, timeout_s: float = 60.0) -> bytes:
    """Run one of the parcel's doors on this machine, as a box would, and return what it prints."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(build().data)
        file.flush()
        argv = [sys.executable, "-I", "-S", file.name, *words]
        return subprocess.run(argv, input=body, capture_output=True, timeout=timeout_s, check=False).stdout


def _sources(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.name.endswith((".py", ".json")):
            found[f"{prefix}/{entry.name}"] = entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            found.update(_sources(entry, f"{prefix}/{entry.name}"))
    return found
