"""Large memory for a moment, taken from the system and given back whole."""

from __future__ import annotations

import contextlib
import mmap

from leasehold.kit.files.checkpoint_file import PAGE_BYTES

_HUGE = 14  # MADV_HUGEPAGE, which Python names since 3.8 only where its own build saw it


def scratch(size: int) -> mmap.mmap:
    """Take fresh memory from the system for ourselves alone."""
    rounded = max(1, -(-size // PAGE_BYTES)) * PAGE_BYTES
    if not hasattr(mmap, "MAP_ANONYMOUS") or not hasattr(mmap.mmap, "madvise"):  # Windows
        return mmap.mmap(-1, rounded)
    memory = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Few large pages: filling them the first time costs a fraction.
    with contextlib.suppress(OSError, ValueError):
        memory.madvise(getattr(mmap, "MADV_HUGEPAGE", _HUGE))
    return memory


def keep_from_children(memory: mmap.mmap) -> mmap.mmap:
    """Take memory out of what a fork shares: with loader workers around, every page written later would be copied."""
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_DONTFORK)
    return memory
