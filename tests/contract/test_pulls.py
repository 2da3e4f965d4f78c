"""Artifacts come home over every transport: in ranges, by several connections, whatever breaks on the way."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import BoxError, HomeError, LinkError, VerifyError
from leasehold.lifecycle.pull import report_digests
from leasehold.lifecycle.pull.files.arrivals import NAME
from leasehold.lifecycle.pull.list_reader import Asked, Place
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.pull.session import Pulled, begin_chart, open_chart, open_list, pull
from leasehold.lifecycle.pull.streams import Way
from leasehold.model.run.note import Note
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
from tests.contract.doors import RUN, WAITS, Door, let_go, plan_of, wait_end
from tests.support.lives import eventually

MIB = 1 << 20
TEXT = b"epoch 1 loss 0.5\n" * 12_000  # one request: nothing is known of the speed yet


@dataclass
class Haul:
    """A run with files on the box, and a folder at home."""

    door: Door
    folder: Path
    engine: CaretakerEngine
    notes: list[Note] = field(default_factory=list)
    fetched: int = 0
    roofs: tuple[Path, ...] = ()
    round_trip_s: float = 0.0
    limit_bytes_per_s: float = 0.0
    lenient: bool = False
    more: Callable[[], CaretakerEngine] | None = None

    def write(self, files: dict[str, bytes]) -> None:
        """Put files into the out folder, from behind, old enough to be believed."""
        for path, content in files.items():
            where = self.door.out() / path
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(content)
            os.utime(where, (time.time() - 100, time.time() - 100))

    def pull(self, engine: Any = None, quiet_s: float = -1.0) -> Pulled:
        """Pull everything; count what came over the wire."""
        engine = engine or self.engine
        pace = Pace(self.notes.append)
        way = Way(RUN, self.more, self.round_trip_s, self.limit_bytes_per_s, self.lenient)
        place = Place(self.folder, self.roofs, lambda folder, need_bytes, need_files: None)
        try:
            opened = open_chart(engine, Asked(RUN, ["main"], ["**"], quiet_s))
            return pull(engine, opened, place, way, pace, self.notes.append)
        finally:
            self.fetched += pace.fetched_bytes

    def home(self) -> dict[str, bytes]:
        """What lies at home."""
        root = self.folder / "cells" / "main"
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def haul(door: Door, tmp_path: Path) -> Iterator[Haul]:
    """A run that has ended without leaving anything; tests put their own files there."""
    engine = door.start(plan_of("true", "**"))
    wait_end(engine)
    yield Haul(door, tmp_path / "home", engine)


def noise(size: int) -> bytes:
    return os.urandom(size)


class Faulty:
    """An engine whose fetches break, lie or are watched."""

    def __init__(self, engine: CaretakerEngine, fault: Callable[[Iterator[bytes], list[Any]], Iterator[bytes]]) -> None:
        self._engine = engine
        self.ranges = FaultyRanges(engine.ranges, fault)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class FaultyRanges:
    """Its part that reads files."""

    def __init__(self, real: Any, fault: Callable[[Iterator[bytes], list[Any]], Iterator[bytes]]) -> None:
        self._real = real
        self._fault = fault

    def fetch(self, run: str, items: list[Any], *, pack: bool, frame_bytes: int) -> Iterator[bytes]:
        """Fetch through the fault."""
        return self._fault(self._real.fetch(run, items, pack=pack, frame_bytes=frame_bytes), items)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def cut_after(limit: int) -> Callable[[Iterator[bytes], list[Any]], Iterator[bytes]]:
    """Lose the link when so many bytes have come, all requests together."""
    left = [limit]

    def fault(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        for chunk in chunks:
            if left[0] <= 0:
                raise LinkError("link.lost", "cut")
            part = chunk[: left[0]]
            left[0] -= len(part)
            yield part
            if len(part) < len(chunk):
                raise LinkError("link.lost", "cut")

    return fault


# ---------------------------------------------------------------- what comes


def test_large_and_small_files_come_home_proved(haul: Haul) -> None:
    files = {
        "big": noise(5 * MIB + 17),
        "block": noise(MIB),
        "a/b/c": b"x",
        **{f"s/{n}": b"%d" % n for n in range(900)},
    }
    haul.write(files)
    pulled = haul.pull()
    assert haul.home() == files
    assert len(pulled.sums) == len(files)
    entries = json.loads(pulled.manifest)["cells"]["main"]
    assert {f"main/{entry['path']}": entry["sha256"] for entry in entries} == pulled.sums


@pytest.mark.parametrize("ahead", [0, 3, 1000])
def test_sums_that_are_told_while_others_come_make_the_same_manifest(
    haul: Haul, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(report_digests, "_BLOCK", 7)
    monkeypatch.setattr(report_digests, "_LEAST_FILES", 7)
    monkeypatch.setattr(report_digests, "_MOST", ahead)
    files = {f"s/{n:04d}": b"%d" % n * 3000 for n in range(600)} | {"s/0300.large": noise(3 * MIB)}
    haul.write(files)

    def slowly(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        for chunk in chunks:
            time.sleep(0.02)  # so that there are moments in between
            yield chunk

    pulled = haul.pull(Faulty(haul.engine, slowly))
    wanted = {f"main/{path}": hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert pulled.sums == wanted
    entries = json.loads(pulled.manifest)["cells"]["main"]
    assert {f"main/{entry['path']}": entry["sha256"] for entry in entries} == wanted


def test_a_list_that_is_asked_for_with_a_look_is_of_what_has_finished(door: Door) -> None:
    engine = door.start(plan_of(WAITS + "echo 1 > $LEASE_OUT/x", "**"))
    early = list(engine.ranges.chart(RUN, ["main"], ["**"], look=True))
    assert [list(part) for part in early] == [["seen"]], "nothing is listed of a cell that goes on"
    assert early[0]["seen"]["cells"]["main"]["state"] != "finished"  # type: ignore[index, call-overload]
    let_go(door)
    wait_end(engine)
    assert begin_chart(engine, Asked(RUN, ["main"], ["**"])).seen == {}
    begun = begin_chart(engine, Asked(RUN, ["main"], ["**"]), look=True)
    assert begun.seen["cells"]["main"]["state"] == "finished"
    assert begun.seen["terminal"] == engine.observe.look(RUN)["terminal"]
    opened = open_list(begun)
    assert opened.first is not None and opened.first.rows
    opened.talk.leave()


def test_a_list_of_many_pieces_makes_a_manifest_in_order(haul: Haul) -> None:
    haul.write({f"{n % 7}/{n}": b"%d" % n for n in range(2600)})
    pulled = haul.pull()
    paths = [entry["path"] for entry in json.loads(pulled.manifest)["cells"]["main"]]
    assert len(haul.home()) == len(paths) == 2600
    assert paths == sorted(paths)


def test_a_box_that_is_hung_up_on_still_writes_its_manifest_down(haul: Haul) -> None:
    haul.write({f"s/{n}": b"%d" % n for n in range(2000)})
    pulled = haul.pull()
    haul.engine.close()
    kept = haul.door.root / "active" / RUN / "manifest.json"
    assert eventually(lambda: kept.exists() and kept.read_bytes() == pulled.manifest)


def test_what_an_earlier_try_left_and_nobody_lists_any_more_is_gone(haul: Haul) -> None:
    haul.write({"stays": noise(3 * MIB), "goes": noise(3 * MIB)})
    with pytest.raises(LinkError):
        haul.pull(Faulty(haul.engine, cut_after(5 * MIB)))
    (haul.door.out() / "goes").unlink()
    haul.pull()
    assert list(haul.home()) == ["stays"]


def test_equal_blocks_and_zeros_do_not_travel(haul: Haul) -> None:
    block, other = noise(MIB), noise(MIB)
    files = {
        "a.bin": block + bytes(3 * MIB) + other + block,
        "b.bin": other + noise(100) + bytes(MIB),
        "c.bin": block * 4,
        "twin": b"twin" * 100,
        "twin2": b"twin" * 100,
        "zeros": bytes(2 * MIB + 5),
    }
    haul.write(files)
    haul.pull()
    assert haul.home() == files
    assert haul.fetched <= 3 * MIB + 400 + 100 + MIB + 100, "a, its other block, the tail of b, one twin"


def test_what_lies_elsewhere_at_home_is_linked_and_not_fetched(haul: Haul, tmp_path: Path) -> None:
    files = {"big": noise(3 * MIB), "small": b"s" * 100, "bad": b"b" * 200}
    haul.write(files)
    first = haul.pull()
    (haul.folder / "manifest.json").write_bytes(first.manifest)
    roof = tmp_path / "quarantine"
    haul.folder.rename(roof)
    (roof / "cells" / "main" / "bad").write_bytes(b"?" * 200)
    haul.roofs, haul.fetched = (roof,), 0
    haul.pull()
    assert haul.home() == files
    assert haul.fetched == 200, "only what was spoiled at home"
    assert (haul.folder / "cells" / "main" / "big").stat().st_ino == (roof / "cells" / "main" / "big").stat().st_ino


def test_text_is_packed_on_a_long_way_and_noise_is_not(haul: Haul) -> None:
    wires: list[int] = []

    def weigh(engine: CaretakerEngine) -> CaretakerEngine:
        real = engine.wire.stream

        def stream(op: str, *rest: Any, **args: Any) -> Iterator[Any]:
            for frame in real(op, *rest, **args):
                wires.append(len(frame.payload) if op == "fetch" else 0)
                yield frame

        engine.wire.stream = stream  # type: ignore[method-assign]
        return engine

    haul.round_trip_s = 0.08
    haul.write({"log": TEXT})
    haul.pull(weigh(haul.door.engine()))
    assert sum(wires) < 50_000
    wires.clear()
    haul.write({"log": TEXT, "noise": noise(200_000)})
    haul.pull(weigh(haul.door.engine()))
    assert sum(wires) >= 200_000
    assert haul.home()["log"] == TEXT


def test_nobody_waits_for_connections_that_have_fallen_silent(haul: Haul) -> None:
    stopped: list[int] = []
    asked = threading.Event()

    def told(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        asked.set()
        yield from chunks

    def late(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        assert asked.wait(60), "others were called, and asked for a part"
        yield from chunks

    def silent() -> Any:
        engine = haul.door.engine()
        stopped.append(engine.wire._link.pid)  # type: ignore[attr-defined]
        os.kill(stopped[-1], signal.SIGSTOP)
        return Faulty(engine, told)

    files = {"model": noise(24 * MIB), **{f"small{number}": noise(5000 + number) for number in range(200)}}
    haul.write(files)
    haul.more, haul.round_trip_s = silent, 0.08
    try:
        haul.pull(Faulty(haul.engine, late))
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert haul.home() == files
    assert haul.fetched == sum(len(content) for content in files.values())


def test_further_connections_carry_a_part_and_are_closed(haul: Haul) -> None:
    opened: list[CaretakerEngine] = []
    carried = threading.Event()

    def told(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        for chunk in chunks:
            carried.set()
            yield chunk

    def late(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        assert carried.wait(60), "a long way asks for more of them, and they bring something"
        yield from chunks

    def more() -> Any:
        opened.append(haul.door.engine())
        return Faulty(opened[-1], told)

    haul.more, haul.round_trip_s, haul.limit_bytes_per_s = more, 0.08, 0.0
    files = {f"big{n}": noise(3 * MIB) for n in range(4)}
    haul.write(files)
    haul.pull(Faulty(haul.engine, late))
    assert haul.home() == files
    assert eventually(lambda: all(map(hung_up, opened))), "one that was still being opened closes when it is"
    assert haul.engine.box.probe()["system"], "the first stays with who opened it"


def hung_up(engine: CaretakerEngine) -> bool:
    """Tell whether a connection is closed."""
    try:
        engine.box.probe()
    except LinkError:
        return True
    return False


def slowly(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
    for chunk in chunks:
        time.sleep(0.05)
        yield chunk


def test_a_box_that_lets_no_second_connection_in_is_pulled_over_one(haul: Haul) -> None:
    def more() -> CaretakerEngine:
        raise LinkError("link.refused", "only one session here")

    haul.more, haul.round_trip_s = more, 0.08
    files = {"big": noise(6 * MIB)}
    haul.write(files)
    haul.pull(Faulty(haul.engine, slowly))
    assert haul.home() == files
    assert [note.kind for note in haul.notes].count("fewer_streams") == 1


# ---------------------------------------------------------------- what breaks


@pytest.mark.parametrize("limit", [1, 100, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 16])
def test_a_cut_costs_no_byte_twice(haul: Haul, limit: int) -> None:
    files = {"big": noise(5 * MIB + 17), "small": b"s" * 300}
    haul.write(files)
    with pytest.raises(LinkError):
        haul.pull(Faulty(haul.engine, cut_after(limit)))
    haul.pull()
    assert haul.home() == files
    assert haul.fetched == sum(map(len, files.values()))


def test_a_killed_home_loses_at_most_what_its_log_does_not_say(haul: Haul) -> None:
    """A torn last line, and bytes in the file that no line speaks of."""
    files = {"big": noise(8 * MIB)}
    haul.write(files)
    with pytest.raises(LinkError):
        haul.pull(Faulty(haul.engine, cut_after(5 * MIB)))
    log = haul.folder / NAME
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:7])
    haul.fetched = 0
    haul.pull()
    assert haul.home() == files
    assert haul.fetched < 8 * MIB


def test_a_box_killed_in_the_middle_is_taken_up_again(haul: Haul) -> None:
    files = {"big": noise(12 * MIB)}
    haul.write(files)
    engine = haul.door.engine()

    def kill(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        for number, chunk in enumerate(chunks):
            yield chunk
            if number == 3:
                engine.close()

    with pytest.raises(LinkError):
        haul.pull(Faulty(engine, kill))
    assert haul.fetched < 12 * MIB
    haul.pull(haul.door.engine())
    assert haul.home() == files
    assert haul.fetched <= 13 * MIB


def test_a_spoiled_block_alone_comes_again(haul: Haul) -> None:
    files = {"big": noise(6 * MIB)}
    haul.write(files)
    spoiled = threading.Event()

    def spoil(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        for chunk in chunks:
            if not spoiled.is_set() and items[0][2] + items[0][3] > 2 * MIB:
                spoiled.set()
                chunk = bytes(len(chunk))
            yield chunk

    haul.pull(Faulty(haul.engine, spoil))
    assert haul.home() == files
    assert haul.fetched == 7 * MIB
    assert "mending" in [note.kind for note in haul.notes]


def test_a_part_that_was_spoiled_at_home_is_mended(haul: Haul) -> None:
    files = {"big": noise(6 * MIB)}
    haul.write(files)
    with pytest.raises(LinkError):
        haul.pull(Faulty(haul.engine, cut_after(4 * MIB)))
    part = haul.folder / "cells" / "main" / "big"
    with open(part, "r+b") as file:
        file.seek(MIB + 5)
        file.write(b"\xff\x00\xff\x00 not what came")
    haul.fetched = 0
    haul.pull()
    assert haul.home() == files
    assert haul.fetched <= 3 * MIB + 256 * 1024


def test_a_file_that_always_comes_wrong_is_refused(haul: Haul) -> None:
    haul.write({"big": noise(2 * MIB)})
    lie = Faulty(haul.engine, lambda chunks, items: (bytes(len(chunk)) for chunk in chunks))
    with pytest.raises(VerifyError) as caught:
        haul.pull(lie)
    assert caught.value.code == "artifact.hash_differs"
    assert "main/big" in caught.value.message


def test_a_file_that_changes_under_the_pull_is_named(haul: Haul) -> None:
    haul.write({"big": noise(30 * MIB)})
    changed = threading.Event()

    def change(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        if not changed.is_set():
            changed.set()
            (haul.door.out() / "big").write_bytes(b"another")
        yield from chunks

    with pytest.raises(BoxError) as caught:
        haul.pull(Faulty(haul.engine, change))
    assert caught.value.code in ("artifact.changed", "artifact.unsealable")
    assert "big" in caught.value.message


def test_a_file_that_a_live_trainer_rewrites_is_left_and_the_rest_comes(haul: Haul) -> None:
    haul.write({"last.pt": noise(3 * MIB), "best.pt": b"best" * 100})
    haul.lenient = True
    changed = threading.Event()

    def change(chunks: Iterator[bytes], items: list[Any]) -> Iterator[bytes]:
        if not changed.is_set():
            changed.set()
            (haul.door.out() / "last.pt").write_bytes(b"the next epoch")
        yield from chunks

    pulled = haul.pull(Faulty(haul.engine, change), quiet_s=5.0)
    assert set(pulled.sums) <= {"main/best.pt"}
    assert [file.path for file in pulled.files if file.skipped][-1:] == ["last.pt"]


def test_what_was_written_a_moment_ago_is_not_taken_from_a_live_run(door: Door, tmp_path: Path) -> None:
    engine = door.start(plan_of(WAITS + 'printf done > "$LEASE_OUT/result.txt"'))
    haul = Haul(door, tmp_path / "home", engine, lenient=True)
    haul.write({"epoch1.pt": b"1" * 100})
    (door.out() / "epoch2.pt").write_bytes(b"2" * 50)
    (door.out() / "epoch3.pt.tmp").write_bytes(b"3" * 50)
    pulled = haul.pull(quiet_s=50.0)
    assert set(pulled.sums) == {"main/epoch1.pt"}
    let_go(door)
    wait_end(engine)


def test_a_home_that_cannot_write_says_so(haul: Haul, tmp_path: Path) -> None:
    haul.write({"a/b": noise(100)})
    haul.folder.mkdir()
    (haul.folder / "cells").write_text("a file where a folder belongs")
    with pytest.raises(HomeError) as caught:
        haul.pull()
    assert caught.value.code == "home.unwritable"
