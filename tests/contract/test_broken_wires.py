"""A wire that breaks says so: never a hang, never half an answer taken for a whole one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import BoxError, LeaseholdError, LinkError
from leasehold.kit.wire import frames
from leasehold.transport.process import ProcessLink
from leasehold.transport.wire import Wire
from tests.contract.doors import RESULT, RUN, WAITS, Door, let_go, plan_of, wait_end
from tests.support import processes
from tests.support.lives import eventually

BIG_BYTES = 300 << 20


def big_file(door: Door) -> None:
    """Leave a large sparse file where `get` finds it."""
    with open(door.out() / "big", "wb") as file:
        file.truncate(BIG_BYTES)


# ---------------------------------------------------------------- the peer dies


def test_a_peer_that_dies_in_the_middle_of_an_answer_is_a_lost_link(door: Door) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    big_file(door)
    chunks = engine.ranges.get(RUN, "out", "main", "big")
    got = len(next(chunks))
    processes.send(door.serving(), signal.SIGKILL)
    with pytest.raises(LinkError):
        got += sum(len(chunk) for chunk in chunks)
    assert got < BIG_BYTES


def test_every_request_on_a_dead_wire_hears_of_it_and_so_does_the_next(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    follower = engine.observe.follow(RUN, 0, {})
    assert "events" in next(item for item in follower if isinstance(item, dict))
    heard: list[str] = []
    waiting = [threading.Thread(target=lambda: heard.append(error_of(follower))) for _ in range(1)]
    for thread in waiting:
        thread.start()
    processes.send(door.serving(), signal.SIGKILL)
    for thread in waiting:
        thread.join(30)
    assert heard == ["LinkError"]
    with pytest.raises(LinkError):
        engine.box.probe()
    let_go(door)


def error_of(answer: Iterator[object]) -> str:
    try:
        for _ in answer:
            pass
    except LeaseholdError as error:
        return type(error).__name__
    return "an end"


def test_the_run_does_not_notice_that_a_wire_died(door: Door) -> None:
    door.start(plan_of(WAITS + RESULT))
    processes.send(door.serving(), signal.SIGKILL)
    assert eventually(lambda: not door.serving())
    engine = door.engine()
    assert engine.observe.look(RUN)["caretaker_alive"]
    let_go(door)
    assert wait_end(engine)["state"] == "finished"


def test_a_closed_wire_says_so_and_closing_twice_is_closing_once(door: Door) -> None:
    wire = door.open()
    wire.close()
    wire.close()
    with pytest.raises(LinkError):
        wire.ask("probe")
    assert eventually(lambda: not door.serving())


def test_a_box_whose_home_hangs_up_stops_serving(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    next(engine.observe.follow(RUN, 0, {}))
    engine.close()
    assert eventually(lambda: not door.serving())
    let_go(door)


# ---------------------------------------------------------------- frames that are not


def test_home_does_not_send_an_oversize_frame(door: Door) -> None:
    wire = door.open()
    with pytest.raises(frames.WireError, match="exceeds the limit"):
        wire.ask("put_tree", [{"path": "x"}, b"x" * (frames.MAX_PAYLOAD_BYTES + 1)], tree="t")
    assert wire.ask("probe")["system"], "what was refused here never reached the box"


def test_a_box_hangs_up_on_an_oversize_frame(door: Door) -> None:
    wire = door.open()
    wire._link.writer.write(frames.HEADER.pack(frames.MAX_PAYLOAD_BYTES + 1, 9, frames.JSON))
    wire._link.writer.flush()
    with pytest.raises(LinkError):
        wire.ask("probe")
    assert eventually(lambda: not door.serving())


@pytest.mark.parametrize("payload", [b"not json", b"[1,2]", b"\xff"], ids=["text", "a-list", "bytes"])
def test_a_box_hangs_up_on_a_request_that_is_none(door: Door, payload: bytes) -> None:
    wire = door.open()
    wire._link.writer.write(frames.pack(9, frames.JSON, payload))
    wire._link.writer.flush()
    with pytest.raises(LinkError):
        wire.ask("probe")
    assert eventually(lambda: not door.serving())


class Scripted:
    """A transport to a lying box: a program that greets as it should and then says what the test wants."""

    name = "scripted"

    def __init__(self, folder: Path, verdict: bytes, then: bytes = b"", lingers: bool = False) -> None:
        self._then = folder / "then"
        self._then.write_bytes(then)
        self._verdict = verdict
        self._lingers = lingers

    def open(self, command: str) -> ProcessLink:
        hello = b" " + self._verdict + b"\n"
        program = (
            "import sys; box, home = sys.stdin.buffer, sys.stdout.buffer; "
            "nonce = [box.readline() for _ in range(6)][0].strip(); "
            f"home.write(b'LEASEHOLD/1 ' + nonce + {hello!r}); home.flush(); "
            f"box.read({frames.HEADER.size}); home.write(open({str(self._then)!r}, 'rb').read()); home.flush(); "
            + ("box.read()" if self._lingers else "")
        )
        words = [sys.executable, "-I", "-S", "-c", program]
        return ProcessLink(words, os.environ, lambda code, said: LinkError("link.lost", f"ended with {code}"))


LIES = {
    "an-oversize-frame": frames.HEADER.pack(frames.MAX_PAYLOAD_BYTES + 1, 1, frames.DATA) + b"x" * 100,
    "an-unknown-type": frames.HEADER.pack(1, 1, 99) + b"x",
    "half-a-header": frames.HEADER.pack(10, 1, frames.DATA)[:4],
    "half-a-payload": frames.HEADER.pack(10, 1, frames.DATA) + b"x" * 5,
    "nothing": b"",
    "an-answer-without-an-end": frames.pack_json(1, {"have": True}),
    "an-answer-to-somebody-else": frames.pack_json(77, {"have": True}) + frames.pack(77, frames.END),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_an_answer_that_is_no_whole_answer_is_a_lost_link(tmp_path: Path, lie: bytes) -> None:
    with Wire(Scripted(tmp_path, b"ready", lie), "/root") as wire, pytest.raises(LinkError):
        wire.ask("have_tree", tree="t")


VERDICTS = {
    b"nopython": (BoxError, "box.no_python"),
    b"noroot /full": (BoxError, "box.no_root"),
    b"need": (LinkError, "link.lost"),  # and it ends while the parcel is sent
    b"damaged": (LinkError, "link.strange"),
    b"\x1b[31mwhatever": (LinkError, "link.strange"),
    b"": (LinkError, "link.strange"),
}


@pytest.mark.parametrize("verdict", VERDICTS, ids=repr)
def test_a_box_that_cannot_serve_us_says_why_in_plain_text(tmp_path: Path, verdict: bytes) -> None:
    kind, code = VERDICTS[verdict]
    with pytest.raises(kind) as caught:
        Wire(Scripted(tmp_path, verdict), "/root")
    assert caught.value.code == code
    assert "\x1b" not in caught.value.message


def test_an_error_answer_cannot_bring_escapes_to_the_terminal(tmp_path: Path) -> None:
    lie = frames.pack_json(1, {"code": "x\x1b]0;y\x07", "message": "a\x1b[2Jb\nc"}, frames.ERROR)
    with Wire(Scripted(tmp_path, b"ready", lie, lingers=True), "/root") as wire, pytest.raises(BoxError) as caught:
        wire.ask("probe")
    assert "\x1b" not in caught.value.code + caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("payload", [b"not json", b"[]"], ids=["text", "a-list"])
def test_an_object_that_is_none_is_a_broken_protocol(tmp_path: Path, payload: bytes) -> None:
    lie = frames.pack(1, frames.JSON, payload) + frames.pack(1, frames.END)
    with Wire(Scripted(tmp_path, b"ready", lie, lingers=True), "/root") as wire, pytest.raises(LeaseholdError):
        wire.ask("probe")
