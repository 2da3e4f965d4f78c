"""Copy a state into host memory for the writer: one buffer, reused for every save."""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.checkpoint_file import TREE, Entry

from .leaves import WIDTHS, Leaf, bytes_leaf, copy_out, torch_now
from .memory import keep_from_children, scratch
from .tree import Flat

_WORTH_THREADS = 64 << 20
_COPIERS = 4


class Snapshot(NamedTuple):
    """A state at one moment, laid out as in the file."""

    entries: List[Entry]
    buffer: Any
    data_bytes: int
    arrived: Any  # an event of the device to wait for, or None

    def wait(self) -> None:
        """Return once every byte has arrived from the device."""
        if self.arrived is not None:
            self.arrived.synchronize()


class Stage:
    """Owns the buffer. It grows when the state does, and is pinned once the state lies on a CUDA device."""

    def __init__(self) -> None:
        self._buffer: Optional[mmap.mmap] = None
        self._pinned_at = 0

    @property
    def bytes(self) -> int:
        """Return the host memory held: the data size of one checkpoint."""
        return len(self._buffer) if self._buffer is not None else 0

    def take(self, flat: Flat) -> Snapshot:
        """Copy every array; copies from a device are in progress when this returns."""
        laid, data_bytes = _lay_out(flat)
        on_device = any(leaf.library == "torch" and leaf.source.is_cuda for leaf, _ in laid)
        buffer = self._room(data_bytes, on_device)
        if on_device or data_bytes < _WORTH_THREADS:
            for leaf, entry in laid:
                copy_out(leaf, buffer, entry.begin)
        else:
            with ThreadPoolExecutor(min(_COPIERS, os.cpu_count() or 1)) as pool:
                list(pool.map(lambda item: copy_out(item[0], buffer, item[1].begin), laid))
        arrived = None
        if on_device:
            arrived = _events([leaf for leaf, _ in laid])
        return Snapshot([entry for _, entry in laid], buffer, data_bytes, arrived)

    def release(self) -> None:
        """Give the memory back."""
        self._unpin()
        self._buffer = None

    def _room(self, size: int, pinned: bool) -> Any:
        if self._buffer is None or len(self._buffer) < size:
            self._unpin()
            self._buffer = keep_from_children(scratch(size))
        if pinned and not self._pinned_at:
            self._pin()
        return self._buffer

    def _pin(self) -> None:
        torch = torch_now()
        at = torch.frombuffer(self._buffer, dtype=torch.uint8).data_ptr()
        # Registered rather than allocated pinned: torch's own allocator rounds up to a power of two.
        if int(torch.cuda.cudart().cudaHostRegister(at, self.bytes, 0)) == 0:
            self._pinned_at = at

    def _unpin(self) -> None:
        if self._pinned_at:
            torch_now().cuda.cudart().cudaHostUnregister(self._pinned_at)
            self._pinned_at = 0


def _lay_out(flat: Flat) -> Tuple[List[Tuple[Leaf, Entry]], int]:
    tree = bytes_leaf(flat.text.encode("ascii"), TREE)
    laid, at = [], 0
    for leaf in sorted([*flat.leaves, tree], key=lambda leaf: -WIDTHS[leaf.dtype]):
        laid.append((leaf, Entry(leaf.name, leaf.dtype, leaf.shape, at, at + leaf.bytes)))
        at += leaf.bytes
    return laid, at


def _events(leaves: List[Leaf]) -> Any:
    """Record the event in each device's stream after which the copies are complete."""
    torch = torch_now()
    events = []
    for device in {leaf.source.device for leaf in leaves if leaf.library == "torch" and leaf.source.is_cuda}:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        events.append(event)
    return _All(events)


class _All:
    def __init__(self, events: List[Any]) -> None:
        self._events = events

    def synchronize(self) -> None:
        for event in self._events:
            event.synchronize()
