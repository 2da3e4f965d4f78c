"""Run by a Python that has torch: time a Checkpointer beside torch.save and beside the disk; print the rounds as JSON.

Usage: checkpoint_rounds.py FOLDER MEGABYTES ROUNDS [DEVICE]. On a cuda device the copy to pinned memory is timed, too.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from leasehold.checkpoint import Checkpointer
from leasehold.checkpoint.state.parts import one_copying_thread
from leasehold.checkpoint.store.files import load_file

_TENSORS = 96


def main(folder: str, megabytes: int, rounds: int, device: str = "cpu") -> None:
    """Take every way once a round; the first round warms up and does not count."""
    state = {f"t{n}": torch.randn(megabytes * 2**20 // 4 // _TENSORS, device=device) for n in range(_TENSORS)}
    ways = Ways(folder, state, device)
    taken: dict[str, list[float]] = {}
    for number in range(-1, rounds):
        for name in ways.names():
            value = getattr(ways, name)()
            if number >= 0:
                taken.setdefault(name, []).append(value)
    ways.close()
    about = {"bytes": ways.bytes, "host_bytes": ways.host_bytes, "device": device, "torch": torch.__version__}
    if device != "cpu":
        about["gpu"] = torch.cuda.get_device_name()
    print(json.dumps({"taken": taken, **about}))


class Ways:
    """Each method does one thing once and returns its seconds."""

    def __init__(self, folder: str, state: dict[str, Any], device: str) -> None:
        self._folder, self._state, self._device = folder, state, device
        self.bytes = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        self._ckpt = Checkpointer(os.path.join(folder, "ckpt"), keep=10**6, every_steps=10**9, say=lambda line: None)
        self._ckpt.restore(state=state)
        self._step = 0
        self._pinned: Any = None

    def names(self) -> list[str]:
        """List the ways in the order they are taken."""
        always = [
            "torch_save",
            "stall",
            "durable",
            "raw_write",
            "direct_write",
            "read",
            "restore",
            "read_warm",
            "restore_warm",
        ]
        return always if self._device == "cpu" else ["pinned_copy", "dcp_async_stall", *always]

    def torch_save(self) -> float:
        """The peer: the loop stands still until torch.save returns."""
        path = os.path.join(self._folder, "peer.pt")
        seconds = _timed(lambda: torch.save(self._state, path), self._device)
        os.unlink(path)
        return seconds

    def stall(self) -> float:
        """How long the loop stands still for ours, until the device could go on."""
        self._ckpt.step(self._step)
        self._step += 1
        self._begun = time.perf_counter()
        return _timed(lambda: self._ckpt.save(wait=False), self._device)

    def durable(self) -> float:
        """From the same save's beginning until it is on the disk, hashed."""
        self._ckpt.wait()
        seconds = time.perf_counter() - self._begun
        for name in sorted(os.listdir(self._ckpt.folder)):  # what it replaces goes off the clock, as the peer's does
            if name.startswith("step-") and not self._newest().endswith(name):
                os.unlink(os.path.join(self._ckpt.folder, name))
        return seconds

    def raw_write(self) -> float:
        """The peer of saving: as many bytes of memory, written and forced to the disk."""
        return self._raw(0)

    def direct_write(self) -> float:
        """The disk's limit: the same past the page cache."""
        return self._raw(getattr(os, "O_DIRECT", 0))

    def _raw(self, flags: int) -> float:
        path, piece = os.path.join(self._folder, "raw"), mmap.mmap(-1, 1 << 24)
        piece[:] = os.urandom(1 << 24)
        begun = time.perf_counter()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o600)
        for _ in range(self.bytes // len(piece)):
            os.write(fd, piece)
        os.fsync(fd)
        seconds = time.perf_counter() - begun
        os.close(fd)
        os.unlink(path)
        return seconds

    def read(self) -> float:
        """The peer of restoring: read the file, not in the cache, into memory."""
        return self._read(warm=False)

    def restore(self) -> float:
        """Of a file that is not in the cache."""
        return self._restore(warm=False)

    def read_warm(self) -> float:
        """The same peer with a file that the cache holds."""
        return self._read(warm=True)

    def restore_warm(self) -> float:
        """Of a file that the cache holds."""
        return self._restore(warm=True)

    def _read(self, warm: bool) -> float:
        path = self._cached(warm)
        begun = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        seconds = time.perf_counter() - begun
        del data
        return seconds

    def _restore(self, warm: bool) -> float:
        """Check every byte, then copy the tensors to where they belong, as load_state_dict does."""
        path = self._cached(warm)
        begun = time.perf_counter()
        saved = load_file(path).part("state", borrowed=True)
        with one_copying_thread():
            for name, tensor in self._state.items():
                tensor.copy_(saved[name])
        return time.perf_counter() - begun

    def _cached(self, warm: bool) -> str:
        """Name the newest file, after bringing it into the cache or out of it."""
        path = self._newest()
        with open(path, "rb", buffering=0) as file:
            if warm:
                while file.read(1 << 24):
                    pass
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def pinned_copy(self) -> float:
        """The limit of a stall: one copy from the device into pinned memory."""
        if self._pinned is None:
            flat = sum(tensor.numel() for tensor in self._state.values())
            self._pinned = torch.empty(flat, dtype=torch.float32, pin_memory=True)
        return _timed(self._copy_pinned, self._device)

    def _copy_pinned(self) -> None:
        at = 0
        for tensor in self._state.values():
            self._pinned[at : at + tensor.numel()].copy_(tensor, non_blocking=True)
            at += tensor.numel()

    def dcp_async_stall(self) -> float:
        """The peer: torch's own asynchronous save, until it gives the loop back."""
        import shutil

        import torch.distributed.checkpoint as dcp

        path = os.path.join(self._folder, "dcp")
        waiting: list[Any] = []
        try:
            seconds = _timed(lambda: waiting.append(dcp.async_save(self._state, checkpoint_id=path)), self._device)
            waiting[0].result()
        except (
            RuntimeError,
            AssertionError,
            ValueError,
        ) as problem:  # a peer that fails must not take our rows with it
            print(f"dcp.async_save failed: {problem}", file=sys.stderr)
            return math.nan
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return seconds

    def close(self) -> None:
        """Note what was held, and give it back."""
        self.host_bytes = self._ckpt.host_bytes
        self._ckpt.__exit__(None, None, None)

    def _newest(self) -> str:
        names = [name for name in os.listdir(self._ckpt.folder) if name.startswith("step-")]
        return os.path.join(self._ckpt.folder, max(names))


def _timed(work: Callable[[], object], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:5])
