"""Temporary large memory, mapped from the system and returned whole."""

from __future__ import annotations

import contextlib
import mmap

from leasehold.kit.files.checkpoint_file import PAGE_BYTES

_HUGE = 14  # MADV_HUGEPAGE, which Python names since 3.8 only if its own build had it


def scratch(size: int) -> mmap.mmap:
    """Map fresh private memory."""
    rounded = max(1, -(-size // PAGE_BYTES)) * PAGE_BYTES
    if not hasattr(mmap, "MAP_ANONYMOUS") or not hasattr(mmap.mmap, "madvise"):  # Windows
        return mmap.mmap(-1, rounded)
    memory = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # A few large pages: the first write to them costs a fraction.
    with contextlib.suppress(OSError, ValueError):
        memory.madvise(getattr(mmap, "MADV_HUGEPAGE", _HUGE))
    return memory


def keep_from_children(memory: mmap.mmap) -> mmap.mmap:
    """Exclude memory from forks: with loader workers, every page written later would be copied."""
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_DONTFORK)
    return memory
