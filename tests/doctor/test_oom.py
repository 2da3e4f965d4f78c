"""The numbers of an out-of-memory line, in torch's old and new words."""

from __future__ import annotations

import pytest

from leasehold.kit.failure.oom import parse, rung
from leasehold.kit.text.units import say_binary

GIB = 1 << 30
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already "
    "allocated; 3.03 GiB free; 1.24 GiB reserved in total by PyTorch)"
)
NEW = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of "
    "23.65 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of "
    "the allocated memory 22.90 GiB is allocated by PyTorch, and 194.87 MiB is reserved by PyTorch but unallocated."
)
FRAGMENTED = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 18.01 GiB already allocated; "
    "12.00 MiB free; 22.40 GiB reserved in total by PyTorch)"
)
SHARED = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 24.00 GiB total capacity; 1.00 GiB already allocated; "
    "12.00 MiB free; 1.10 GiB reserved in total by PyTorch)"
)


def test_the_old_words_are_read():
    seen = parse(OLD)
    assert seen is not None
    assert seen.requested == int(2.26 * GIB)
    assert seen.total == 6 * GIB
    assert seen.free == int(3.03 * GIB)
    assert seen.gap is not None and 400 << 20 < seen.gap < 500 << 20


def test_the_new_words_are_read():
    seen = parse(NEW)
    assert seen is not None
    assert seen.allocated == int(22.90 * GIB)
    assert seen.in_use == int(23.60 * GIB)
    assert seen.case == "plain"


@pytest.mark.parametrize("line, case", [(FRAGMENTED, "fragmentation"), (SHARED, "neighbour"), (OLD, "plain")])
def test_the_numbers_show_the_case(line, case):
    seen = parse(line)
    assert seen is not None
    assert seen.case == case
    assert seen.as_dict()["case"] == case


def test_each_case_has_its_own_rung():
    rungs = {rung(entry, None) for entry in ("U10", "U11", "M2", "M8", "M15", "M17", "D15")}
    assert len(rungs) == 7
    assert "expandable_segments" in rung("U10", parse(FRAGMENTED))


def test_another_line_has_no_numbers():
    assert parse("peak memory 12.00 GiB") is None
    assert parse("CUDA error: out of memory") is None


def test_sizes_are_said_as_torch_says_them():
    assert [say_binary(size) for size in (0, 5 << 10, 3 * GIB)] == ["0 bytes", "5.00 KiB", "3.00 GiB"]
