"""Frames: what is packed is read, and a peer that breaks the protocol is told so, never obeyed."""

from __future__ import annotations

import io
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.wire import frames
from leasehold.kit.wire.frames import DATA, END, ERROR, HEADER, JSON, MAX_PAYLOAD_BYTES, Frame, WireError, read_frame
from tests.support.examples import MANY

TYPES = st.sampled_from([JSON, DATA, END, ERROR])
REQUESTS = st.integers(0, 2**32 - 1)
FRAMES = st.lists(st.builds(Frame, REQUESTS, TYPES, st.binary(max_size=300)), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20)
OBJECTS = st.dictionaries(st.text(max_size=8), LEAVES | st.lists(LEAVES, max_size=3), max_size=5)


class Trickle(io.RawIOBase):
    """A stream that gives at most a few bytes a read, as pipes and sockets may."""

    def __init__(self, data: bytes, most: int) -> None:
        self._inner = io.BytesIO(data)
        self._most = most

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, self._most))


def read_all(data: bytes, most: int = 1 << 20):
    stream = Trickle(data, most)
    found = []
    while True:
        frame = read_frame(stream)
        if frame is None:
            return found
        found.append(frame)


@MANY
@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sent, most):
    data = b"".join(frames.pack(frame.request, frame.type, frame.payload) for frame in sent)
    assert read_all(data, most) == sent


@MANY
@given(REQUESTS, OBJECTS)
def test_objects_come_out_as_they_went_in(request, value):
    (frame,) = read_all(frames.pack_json(request, value))
    assert (frame.request, frame.type, frame.json()) == (request, JSON, value)


@MANY
@given(st.builds(Frame, REQUESTS, TYPES, st.binary(max_size=40)), st.data())
def test_a_stream_may_end_between_frames_but_not_inside_one(frame, data):
    whole = frames.pack(frame.request, frame.type, frame.payload)
    cut = data.draw(st.integers(0, len(whole) - 1))
    stream = io.BytesIO(whole[:cut])
    if cut == 0:
        assert read_frame(stream) is None
    else:
        with pytest.raises(WireError, match="short of a frame"):
            read_frame(stream)


@MANY
@given(st.binary(max_size=200))
def test_garbage_gives_frames_or_a_wire_error_and_nothing_else(garbage):
    try:
        found = read_all(garbage)
    except WireError:
        return
    assert b"".join(frames.pack(f.request, f.type, f.payload) for f in found) == garbage


def test_an_oversized_length_is_refused_before_anything_is_read():
    stream = io.BytesIO(HEADER.pack(MAX_PAYLOAD_BYTES + 1, 1, DATA) + b"x" * 100)
    with pytest.raises(WireError, match="not a frame: length 4194305"):
        read_frame(stream)
    assert stream.tell() == HEADER.size


@pytest.mark.parametrize("type_", [0, 6, 255])
def test_an_unknown_type_is_refused(type_):
    with pytest.raises(WireError, match="type %d" % type_):
        read_frame(io.BytesIO(HEADER.pack(0, 1, type_)))


def test_the_largest_frame_passes_and_one_byte_more_does_not():
    (frame,) = read_all(frames.pack(7, DATA, b"x" * MAX_PAYLOAD_BYTES))
    assert len(frame.payload) == MAX_PAYLOAD_BYTES
    with pytest.raises(WireError, match="exceeds the limit"):
        frames.pack(7, DATA, b"x" * (MAX_PAYLOAD_BYTES + 1))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"{'a': 1}",
        b"1" * 5000,  # more digits than an int may have where Python limits them, and no object anywhere
        b'{"a":' * 100000,
        b"[" * 100000 + b"]" * 100000,
    ],
    ids=["empty", "cut", "not utf-8", "python", "digits", "deep objects", "deep lists"],
)
def test_a_payload_that_is_no_object_is_a_wire_error(payload):
    with pytest.raises(WireError):
        Frame(1, JSON, payload).json()


@pytest.mark.parametrize("payload", [b"[1]", b'"text"', b"1", b"null", b"true"])
def test_json_that_is_not_an_object_is_named(payload):
    with pytest.raises(WireError, match="where an object belongs"):
        Frame(1, JSON, payload).json()


def test_an_object_longer_than_a_frame_is_told_packed_and_read_as_it_was():
    value = {"cells": {"cell-%05d" % number: {"state": "finished", "attempt": 1} for number in range(120_000)}}
    data = frames.pack_json(7, value)
    assert len(data) < MAX_PAYLOAD_BYTES < len(json.dumps(value))
    frame = read_frame(io.BytesIO(data))
    assert frame is not None
    assert (frame.request, frame.type, frame.json()) == (7, JSON, value)


@pytest.mark.parametrize("payload", [b"", b"garbage", zlib.compress(b"{}")[:-8]])
def test_a_packed_frame_that_cannot_be_unpacked_is_a_wire_error(payload):
    data = io.BytesIO(HEADER.pack(len(payload), 1, frames.PACKED) + payload)
    with pytest.raises(WireError):
        frame = read_frame(data)
        assert frame is not None
        frame.json()


def test_a_packed_frame_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(frames, "_MAX_OBJECT_BYTES", 1000)
    payload = zlib.compress(b" " * 1001)
    with pytest.raises(WireError, match="more than 1000 bytes"):
        read_frame(io.BytesIO(HEADER.pack(len(payload), 1, frames.PACKED) + payload))


def test_a_file_name_that_is_not_utf8_can_be_told_to_the_other_end():
    """A box's folder may hold such names; `fingerprint` and `salvageable` must be able to list them."""
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    (frame,) = read_all(frames.pack_json(1, {"path": name}))
    assert frame.json() == {"path": name}
