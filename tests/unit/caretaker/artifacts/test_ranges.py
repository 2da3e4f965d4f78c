"""What home asks for comes in order and whole, from a quick disk and from one where every file waits."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any, List

import pytest

from leasehold.caretaker.artifacts import ranges as place
from leasehold.caretaker.artifacts.ranges import Artifacts, Span, filled, ranges
from leasehold.caretaker.process.parallel import MOST, ahead
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.connection import Refused

COUNT = 60


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = Path(RunFolder(str(tmp_path)).out("main"))
    folder.mkdir(parents=True)
    for number in range(COUNT):
        (folder / ("%02d" % number)).write_bytes(b"%d" % number * (number + 1))
    (folder / "large").write_bytes(os.urandom(300_000))
    return folder


def item(out: Path, name: str, sealed: bool = True) -> List[Any]:
    info = (out / name).stat()
    return ["main", name, 0, info.st_size, info.st_mtime_ns] + [True] * sealed


def sent(tmp_path: Path, items: List[Any], size: int = 1000, look: bool = True) -> bytes:
    """Everything that would travel."""
    opened = Artifacts(RunFolder(str(tmp_path)))
    try:
        return b"".join(_bytes(block) for block in filled(ranges(opened, items, size, look), size))
    finally:
        opened.close()


def _bytes(block: Any) -> bytes:
    return os.pread(block.fd, block.length, block.offset) if isinstance(block, Span) else b"".join(block)


@pytest.mark.parametrize("slow_s", [0.0, 1e9], ids=["slow", "quick"])
@pytest.mark.parametrize("look", [True, False])
def test_small_files_come_in_order_with_their_sums_and_large_ones_between(tmp_path, out, monkeypatch, slow_s, look):
    monkeypatch.setattr(place, "_SLOW_S", slow_s)
    names = ["%02d" % number for number in range(COUNT)]
    items = [item(out, name) for name in names[:30]]
    items += [item(out, "large", sealed=False), *(item(out, name) for name in names[30:])]
    wanted = [(out / name).read_bytes() for name in names]
    whole = [content + hashlib.sha256(content).digest() for content in wanted]
    assert sent(tmp_path, items, look=look) == b"".join([*whole[:30], (out / "large").read_bytes(), *whole[30:]])


@pytest.mark.parametrize("slow_s", [0.0, 1e9], ids=["slow", "quick"])
def test_a_file_that_changed_since_it_was_listed_is_refused(tmp_path, out, monkeypatch, slow_s):
    monkeypatch.setattr(place, "_SLOW_S", slow_s)
    items = [item(out, "%02d" % number) for number in range(COUNT)]
    (out / "40").write_bytes(b"other")
    with pytest.raises(Refused, match="main/40 changed on the box"):
        sent(tmp_path, items)


def test_a_link_out_of_the_folder_is_refused_by_the_threads_too(tmp_path, out, monkeypatch):
    monkeypatch.setattr(place, "_SLOW_S", 0.0)
    items = [item(out, "%02d" % number) for number in range(COUNT)]
    (out / "50").unlink()
    (out / "50").symlink_to("/etc/passwd")
    with pytest.raises(Refused) as caught:
        sent(tmp_path, items)
    assert caught.value.code == "artifact.unreadable"


def test_several_are_under_way_at_once_and_come_in_order():
    together = threading.Barrier(MOST)

    def work(number: int) -> int:
        together.wait(20)  # fewer than this many at once would wait for ever
        return number

    assert list(ahead(work, range(4 * MOST))) == list(range(4 * MOST))


def test_the_first_failure_ends_it_and_what_has_not_begun_is_not_done():
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        return 1 // (3 - number)

    with pytest.raises(ZeroDivisionError):
        list(ahead(work, range(100_000), most=2))
    assert len(begun) < 1000
