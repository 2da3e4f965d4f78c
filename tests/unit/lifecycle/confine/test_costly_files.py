"""Files that cost a careless reader far more than their size: refused, or read within what the kernel allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.kit.readers import limits_within
from leasehold.lifecycle.confine.check_loads import LoadRequest, LoadResult, check_loads
from leasehold.lifecycle.confine.reader_limits import room_for
from tests.unit.kit.readers.forge import called, dcp_list, finished, mapping, named, text, torch_zip
from tests.unit.lifecycle.confine import costly

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[4]
# The reader of one file in a process of its own, which says what it has taken.
TAKEN = """
import json, os, sys, time
from leasehold.kit.readers import Unreadable, limits_within, read
from leasehold.kit.readers.checkpoints.folders import read_folder
path, kind = sys.argv[1:]
limits = limits_within(1 << 30, os.path.getsize(path))
try:
    found = read_folder(path, limits) if kind == "folder" else read(path, kind, limits)
    said = ""
except Unreadable as refused:
    said = refused.reason
highest = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # of this program alone
print(json.dumps([said, time.process_time(), int(highest.split()[1]) << 10]))
"""


def loaded(path: Path, kind: str = "torch", **room: float) -> LoadResult:
    no_torch = str(path.parent / "no-torch-here")
    return check_loads([LoadRequest(str(path), kind, **room)], python=no_torch)[0]  # type: ignore[arg-type]


def taken(path: Path, kind: str = "torch") -> tuple[str, float, int]:
    done = subprocess.run(
        [sys.executable, "-c", TAKEN, str(path), kind], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    said, cpu_s, memory = json.loads(done.stdout)
    return said, cpu_s, memory


def written(folder: Path, content: bytes, name: str = "file.pt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


# ---------------------------------------------------------------- small files that ask for much


def test_lists_that_hold_each_other_are_not_printed(tmp_path: Path) -> None:
    said, cpu_s, memory = taken(written(tmp_path, costly.legacy_protocol(costly.laughs())))
    assert "protocol version is list" in said
    assert cpu_s < 2 and memory < 100 << 20


@pytest.mark.parametrize("file", [costly.list_of_range(10**9), costly.bytearray_of(10**10)], ids=["list", "bytearray"])
def test_a_call_that_takes_memory_for_nothing_is_refused(tmp_path: Path, file: bytes) -> None:
    result = loaded(written(tmp_path, file))
    assert not result.ok
    assert "range" in result.reason or "memory that the file does not fill" in result.reason


@pytest.mark.parametrize(
    "value",
    [
        called("collections.deque", b")", b"K\x05"),
        called("__builtin__.xrange", b"K\x05"),
        called("__builtin__.bytearray", text("abc"), text("latin-1")),
    ],
    ids=["deque", "range", "bytearray"],
)
def test_what_writers_call_is_taken(tmp_path: Path, value: bytes) -> None:
    assert loaded(written(tmp_path, torch_zip(finished(mapping({"x": value}))))).ok


def test_a_layout_of_nested_lists_is_not_printed_either(tmp_path: Path) -> None:
    laughing = named("torch.serialization._get_layout") + costly.laughs() + b"\x85R"
    listed = dcp_list([], {"storage_meta": laughing})
    folder = tmp_path / "ckpt"
    folder.mkdir()
    written(folder, listed, ".metadata")
    said, cpu_s, memory = taken(folder, "folder")
    assert "layout" in said
    assert cpu_s < 2 and memory < 100 << 20


# ---------------------------------------------------------------- large files, within their room


def test_a_long_text_is_not_held_four_times(tmp_path: Path) -> None:
    path = written(tmp_path, costly.long_text(60 << 20))
    said, _, memory = taken(path)
    assert not said
    assert memory < 4 * path.stat().st_size


def test_more_than_eight_million_operations_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, costly.floats(9_000_000))
    assert loaded(path, cpu_s=300.0).ok


def test_a_reader_that_uses_up_its_time_is_ended_and_says_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path, costly.legacy_pickles(16 << 20))
    result = loaded(path, cpu_s=1.0)
    assert not result.ok
    assert "1 s of processor time" in result.reason and "read_time" in result.reason
    assert any(wall.startswith("rlimits") for wall in result.confinement)


def test_a_reader_that_uses_up_its_memory_says_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path, costly.legacy_pickles(4 << 20, b"]"))
    result = loaded(path, memory_bytes=100 << 20, cpu_s=300.0)
    assert not result.ok
    assert "100 MiB of memory" in result.reason and "read_memory" in result.reason


@pytest.mark.full
def test_a_dcp_list_of_a_million_parts_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    with open(folder / ".metadata", "wb") as out:
        for piece in costly.dcp_parts(1_300_000):
            out.write(piece)
    room = room_for(str(folder), "checkpoint")
    result = loaded(folder, "checkpoint")
    assert not result.ok
    assert "read_time" in result.reason or "at most" in result.reason or "more than" in result.reason
    assert room.cpu_s < 5 + 4


# ---------------------------------------------------------------- the room itself


def test_a_small_file_has_a_gibibyte_and_five_seconds(tmp_path: Path) -> None:
    room = room_for(str(written(tmp_path, b"x" * 100)), "torch")
    assert (room.memory_bytes, round(room.cpu_s, 3)) == (GIB, 5.0)


def test_a_large_file_has_more_and_never_a_quarter_of_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    with open(path, "wb") as out:
        out.truncate(50 * GIB)
    room = room_for(str(path), "torch")
    assert GIB <= room.memory_bytes <= max(GIB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
    assert round(room.cpu_s) == round(5 + 50 * GIB / 1e8)


def test_the_job_s_word_counts(tmp_path: Path) -> None:
    room = room_for(str(written(tmp_path, b"x")), "torch", 7 * GIB, 60.0)
    assert (room.memory_bytes, room.cpu_s) == (7 * GIB, 60.0)


def test_limits_grow_with_memory_and_file() -> None:
    small, large = limits_within(GIB, 1000), limits_within(8 * GIB, 5 * GIB)
    assert large.max_pickle_bytes == 8 * small.max_pickle_bytes
    assert large.max_pickle_ops == 5 * GIB
    assert small.max_line_bytes == 64 << 20
