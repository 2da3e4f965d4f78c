"""The parcel: kit and caretaker as one zip whose name is its hash."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from leasehold.kit.files.atomic import write_atomic

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_ROOMS = ("kit", "caretaker", "checkpoint")
# On a full disk Python (seen on 3.11) renames a half-written bytecode cache into place, and nobody can import that
# module again: on a disk that is nearly full none is written.
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
_ENDINGS = (".py", ".json")
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Parcel(NamedTuple):
    """The bytes to send and the name they go by."""

    sha256: str
    data: bytes


@functools.cache
def build() -> Parcel:
    """Return the on-box packages as a zip; equal sources give equal bytes on every home."""
    known, state = _kept_at(), _state()
    kept = _read_kept(known, state) if known and state else None
    if kept is not None:
        return kept
    built = _pack()
    if known and state and not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):  # others own this installation
            write_atomic(known, state.encode() + b"\n" + built.data, durable=False)
    return built


def _pack() -> Parcel:
    import hashlib
    import io
    import zipfile
    from importlib import resources

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


def _kept_at() -> str:
    """Return where Python caches this folder's bytecode, and we the zip: packing takes 60 ms of each command."""
    cached = __spec__.cached
    return os.path.join(os.path.dirname(cached), "parcel.zip") if cached else ""


def _state() -> str:
    """Return every source with its times and size; empty if they are not plain files."""
    import hashlib

    house = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    lines = [_MAIN]
    for room in _ROOMS:
        for folder, _, names in os.walk(os.path.join(house, room)):
            for name in names:
                if name.endswith(_ENDINGS):
                    path = os.path.join(folder, name)
                    info = os.stat(path)
                    lines.append(f"{path} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if len(lines) > len(_ROOMS) else ""


def _read_kept(path: str, state: str) -> Parcel | None:
    from hashlib import sha256

    try:
        with open(path, "rb") as file:
            if file.readline() != state.encode() + b"\n":
                return None
            data = file.read()
    except OSError:
        return None
    return Parcel(sha256(data).hexdigest(), data)


def boot_command() -> str:
    """Build the boot line."""
    return shell_line("boot.sh")


def shell_line(name: str) -> str:
    """Format a script of ours as one shell word list that every login shell passes on unchanged."""
    text = _beside_us(name).decode()
    lines = [line.strip() for line in text.splitlines()]
    joined = " ".join(line for line in lines if line and not line.startswith("#"))
    assert not set(joined) & set("'!\\"), "the line must survive every shell's quoting"
    return f"exec sh -c '{joined}'"


def unpacker() -> bytes:
    """Return the program that a box without the parcel runs first."""
    return _beside_us("unpack.py")


def run_door(words: list[str], body: bytes, timeout_s: float = 60.0) -> bytes:
    """Run one of the parcel's entry points on this machine, as a box would, and return what it prints."""
    import subprocess
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(build().data)
        file.flush()
        argv = [sys.executable, "-I", "-S", file.name, *words]
        return subprocess.run(argv, input=body, capture_output=True, timeout=timeout_s, check=False).stdout


def _beside_us(name: str) -> bytes:
    """Read a file of this package; importlib.resources would cost a command 5 ms before ssh is started."""
    return __spec__.loader.get_data(os.path.join(os.path.dirname(__file__), name))  # type: ignore[union-attr, no-any-return]


def _sources(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.name.endswith(_ENDINGS):
            found[f"{prefix}/{entry.name}"] = entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            found.update(_sources(entry, f"{prefix}/{entry.name}"))
    return found
