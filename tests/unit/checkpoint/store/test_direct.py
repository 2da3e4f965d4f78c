"""Past the page cache or through it: the same bytes arrive, whatever the filesystem can do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from leasehold.checkpoint.state.memory import scratch
from leasehold.checkpoint.state.snapshot import Stage
from leasehold.checkpoint.state.tree import Flat
from leasehold.checkpoint.store import direct
from leasehold.checkpoint.store.direct import Arriving, put_past_cache
from leasehold.checkpoint.store.files import load_file, write_file
from leasehold.kit.files.checkpoint_file import CHUNK_BYTES, Damaged

SIZES = [0, 1, 4095, 4096, 4097, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 4097]


def pattern(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def evicted(path: Path) -> Path:
    """Take a file out of the page cache, as far as its filesystem lets go of it."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def written(path: Path, data: bytes, at: int = 4096) -> bytes:
    memory = scratch(len(data))
    memory[: len(data)] = data
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    put_past_cache(fd, memoryview(memory)[: len(data)], at)
    os.fsync(fd)
    os.close(fd)
    return path.read_bytes()[at:]


def arrived(path: Path, at: int) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    arriving = Arriving(fd, at, path.stat().st_size - at)
    try:
        return b"".join(bytes(arriving.data[begin:end]) for begin, end in arriving)
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_goes_to_the_disk_and_comes_back_from_disk_and_cache(tmp_path: Path, size: int) -> None:
    data, path = pattern(size), tmp_path / "file"
    assert written(path, data) == data
    if size:
        assert arrived(path, 4096) == data
        assert arrived(evicted(path), 4096) == data


def test_a_place_that_is_no_page_goes_through_the_cache(tmp_path: Path) -> None:
    data, path = pattern(10_000), tmp_path / "file"
    assert written(path, data, at=100) == data
    assert arrived(evicted(path), 100) == data


@pytest.mark.parametrize("call", ["pwrite", "preadv"])
def test_a_filesystem_that_refuses_aligned_io_is_asked_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Some say so only when the first bytes come, and network ones may take a part of them."""
    true, refused = getattr(os, call), []

    def picky(fd: int, data: Any, at: int, *more: Any) -> int:
        import fcntl

        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(at)
            raise OSError(errno.EINVAL, "Invalid argument")
        part = data[:1000] if call == "pwrite" else [memoryview(data[0])[:1000]]
        return int(true(fd, part, at, *more))

    monkeypatch.setattr(direct, "_in_cache", lambda *where: False)
    data, path = pattern(10_000), tmp_path / "file"
    if call == "preadv":
        written(path, data)
    monkeypatch.setattr(os, call, picky)
    assert (written(path, data) if call == "pwrite" else arrived(path, 4096)) == data
    assert len(refused) == 1


def test_an_unreadable_sector_is_damage_and_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.safetensors"
    write_file(str(path), Stage().take(Flat({"v": pattern(100_000)})), {"step": "1"})

    def broken(*words: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(direct, "_in_cache", lambda *where: False)
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(Damaged, match="Input/output error"):
        load_file(str(path))


def test_a_file_that_shrinks_while_it_is_read_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    written(path, pattern(50_000))
    monkeypatch.setattr(direct, "_in_cache", lambda *where: False)
    fd = os.open(path, os.O_RDONLY)
    arriving = Arriving(fd, 4096, 50_000)
    os.truncate(path, 8192)
    with pytest.raises(OSError, match="it ends at byte 8192"):
        list(arriving)
    os.close(fd)
