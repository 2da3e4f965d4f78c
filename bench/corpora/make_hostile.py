"""Wrap malicious pickles as the formats that people load, and write payloads that leave a trace if they run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

_MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)
_PROTOCOL = pickle.dumps(1001, protocol=2)
_SYSTEM = pickle.dumps(
    {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, 2
)
_NONE = pickle.dumps(0, protocol=2)
_NO_STORAGES = pickle.dumps([], protocol=2)
_PLAIN = pickle.dumps({"weights": [1.0, 2.0], "step": 3}, protocol=2)


def wraps(payload: bytes) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield nine ways to bring one pickle to a reader: a file name and how to write it."""
    yield "zip.pt", lambda path: _torch_zip(path, payload, zipfile.ZIP_STORED)
    yield "zip-deflated.ckpt", lambda path: _torch_zip(path, payload, zipfile.ZIP_DEFLATED)
    yield "legacy.pth", lambda path: _joined(path, _MAGIC, _PROTOCOL, _SYSTEM, payload, _NO_STORAGES)
    yield "legacy-protocol.pt", lambda path: _joined(path, _MAGIC, payload, _SYSTEM, _PLAIN, _NO_STORAGES)
    yield "legacy-storages.bin", lambda path: _joined(path, _MAGIC, _PROTOCOL, _SYSTEM, _PLAIN, payload)
    yield "legacy-tar.pt", lambda path: _legacy_tar(path, payload)
    yield "objects.npy", lambda path: _joined(path, _npy(payload))
    yield "objects.npz", lambda path: _npz(path, payload)
    yield "dcp", lambda path: _dcp(path, payload)


def _joined(path: Path, *pieces: bytes) -> None:
    path.write_bytes(b"".join(pieces))


def _torch_zip(path: Path, payload: bytes, packed: int) -> None:
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")


def _legacy_tar(path: Path, payload: bytes) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in {
            "storages": _NONE + _NO_STORAGES,  # how many, then views of them
            "tensors": _NONE,
            "pickle": payload,
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _npy(payload: bytes) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


def _npz(path: Path, payload: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("array.npy", _npy(payload))


def _dcp(path: Path, payload: bytes) -> None:
    path.mkdir(exist_ok=True)
    (path / ".metadata").write_bytes(payload)
    (path / "__0_0.distcp").write_bytes(b"\0" * 64)


class _Calls:
    def __init__(self, call: object, *words: object) -> None:
        self._calls = (call, words)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._calls


def canaries(trace: Path) -> dict[str, bytes]:
    """Return pickles that make a file or folder in `trace` when they are loaded, by name."""
    write = "import os; os.mkdir({!r})"
    calls: dict[str, _Calls] = {
        "mkdir": _Calls(os.mkdir, str(trace / "mkdir")),
        "system": _Calls(os.system, f"mkdir {trace}/system"),
        "exec": _Calls(exec, write.format(str(trace / "exec"))),
        "eval": _Calls(eval, f"__import__('os').mkdir({str(trace / 'eval')!r})"),
        "open": _Calls(open, str(trace / "open"), "w"),
        "path": _Calls(Path.touch, trace / "path"),
    }
    made = {f"{name}-{number}": pickle.dumps(call, number) for name, call in calls.items() for number in (0, 2, 4)}
    hidden = {"weights": [1.0] * 50, "state": {"deep": [calls["mkdir"], {"x": calls["exec"]}]}}
    return {**made, "hidden-4": pickle.dumps(hidden, 4), "framed-5": pickle.dumps([hidden, b"x" * 70_000], 5)}
