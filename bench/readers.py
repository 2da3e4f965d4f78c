"""Proving that a torch checkpoint loads, without torch, against sha256sum of the same file."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from leasehold.kit.readers import read
from leasehold.lifecycle.confine.check_loads import LoadRequest, check_loads
from tests.unit.kit.readers.forge import Tensor, finished, mapping

from .rounds import Effort, interleave
from .rows import Goal, MissingPart, Row

_STORAGES = 64
_FLOAT_BYTES = 4


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the reader alone, and the confined process that verification really starts."""
    if shutil.which("sha256sum") is None:
        raise MissingPart("no sha256sum here (Debian: coreutils)")
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        path = Path(place) / "best.pt"
        _write_checkpoint(path, effort.choose(full=2048, quick=64) << 20)
        size = path.stat().st_size
        ways = {
            "reader": lambda: _speed(size, lambda: _read(path)),
            "scanned": lambda: _speed(size, lambda: _read(path, "checkpoint")),
            "confined": lambda: _speed(size, lambda: _read_confined(path)),
            "hashlib": lambda: _speed(size, lambda: _hashlib(path)),
            "sha256sum": lambda: _speed(size, lambda: _sha256sum(path)),
        }
        taken = interleave(ways, effort.choose(full=5, quick=3))
    peer = (taken["sha256sum"], "sha256sum")
    what = f"{size >> 20} MiB .pt proved to load"
    yield Row("readers", what, "MB/s", taken["reader"], *peer, Goal("ratio", "≥", 0.8))
    yield Row("readers", f"{what}, numbers finite", "MB/s", taken["scanned"], *peer, Goal("ratio", "≥", 0.8))
    yield Row("readers", f"{what}, confined process", "MB/s", taken["confined"], *peer)
    yield Row("readers", what, "MB/s", taken["reader"], taken["hashlib"], "hashlib.sha256")


def _speed(size: int, work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return size / 1e6 / (time.perf_counter() - begun)


def _read(path: Path, kind: str = "torch") -> None:
    if read(str(path), kind).tensors != _STORAGES:
        raise RuntimeError(f"{path} was not read whole")


def _read_confined(path: Path) -> None:
    (result,) = check_loads([LoadRequest(str(path), "torch")])
    if not result.ok:
        raise RuntimeError(result.reason)


def _sha256sum(path: Path) -> None:
    subprocess.run(["sha256sum", str(path)], stdout=subprocess.DEVNULL, check=True)


def _hashlib(path: Path) -> None:
    """Hash with OpenSSL, which uses the processor's SHA instructions where sha256sum may not."""
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def _write_checkpoint(path: Path, size: int) -> None:
    """Write what torch.save would: a pickle of tensors and one plainly stored record for each storage."""
    numel = size // _STORAGES // _FLOAT_BYTES
    tensors = {f"layer.{n}": Tensor(str(n), numel, (numel,), (1,)).pickle() for n in range(_STORAGES)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("best/data.pkl", finished(mapping(tensors)))
        archive.writestr("best/byteorder", b"little")
        for number in range(_STORAGES):
            archive.writestr(f"best/data/{number}", os.urandom(numel * _FLOAT_BYTES))
        archive.writestr("best/version", b"3\n")
