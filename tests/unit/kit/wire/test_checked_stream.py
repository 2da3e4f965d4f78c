"""Checked records: what a broken stream delivers is a true beginning of what was sent, or nothing."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import List, Tuple

import pytest

from leasehold.kit.wire.checked_stream import CheckedReader, CheckedWriter, StreamDamaged

BLOCK = 32 << 10  # the boundaries at which real exec streams were seen to break
EXAMPLES = int(os.environ.get("LEASEHOLD_EXAMPLES", 300))
SEED = int(os.environ.get("LEASEHOLD_SEED", 1))
FAULTS = ("cut", "repeat", "drop", "change", "swap", "garbage")


def recorded(payloads: List[bytes], bye: bool = True) -> bytes:
    """Write payloads as records."""
    out: List[bytes] = []
    writer = CheckedWriter(out.append)
    writer.send(payloads)
    if bye:
        writer.bye()
    return b"".join(out)


def delivered(raw: bytes, silent_s: float = 5.0) -> Tuple[bytes, bool]:
    """Read a raw stream to its end: what came through, and whether the end was a clean one."""
    near, far = os.pipe()

    def feed() -> None:
        view = memoryview(raw)
        try:
            while view:
                view = view[os.write(far, view) :]
        except OSError:
            pass
        os.close(far)

    thread = threading.Thread(target=feed)
    thread.start()
    reader, got = CheckedReader(near, silent_s=silent_s), bytearray()
    try:
        while True:
            block = reader.read(1 << 16)
            if not block:
                return bytes(got), True
            got += block
    except StreamDamaged:
        return bytes(got), False
    finally:
        os.close(near)
        thread.join()


def broken(raw: bytes, fault: str, at: int, chance: random.Random) -> bytes:
    """Break a stream at a block boundary."""
    start = at * BLOCK
    block = raw[start : start + BLOCK]
    if fault == "cut":
        return raw[:start]
    if fault == "repeat":
        return raw[: start + BLOCK] + block + raw[start + BLOCK :]
    if fault == "drop":
        return raw[:start] + raw[start + BLOCK :]
    if fault == "swap":
        after = raw[start + BLOCK : start + 2 * BLOCK]
        return raw[:start] + after + block + raw[start + 2 * BLOCK :]
    if fault == "garbage":
        return raw[:start] + bytes(chance.getrandbits(8) for _ in range(50)) + raw[start:]
    place = start + chance.randrange(max(1, len(block)))
    return raw[:place] + bytes([raw[place] ^ (1 << chance.randrange(8))]) + raw[place + 1 :]


def test_what_was_sent_arrives_whole() -> None:
    payloads = [b"", b"x", os.urandom(700_000), b"end"]
    assert delivered(recorded(payloads)) == (b"".join(payloads), True)


def test_no_broken_stream_delivers_a_wrong_byte() -> None:
    chance = random.Random(SEED)
    for number in range(EXAMPLES):
        payloads = [chance.randbytes(chance.choice((9, 200, 5_000, 90_000))) for _ in range(chance.randrange(1, 6))]
        raw, sent = recorded(payloads), b"".join(payloads)
        fault = FAULTS[number % len(FAULTS)]
        harmed = broken(raw, fault, chance.randrange(len(raw) // BLOCK + 1), chance)
        got, clean = delivered(harmed)
        assert sent.startswith(got), (number, fault)
        assert not clean or got == sent, (number, fault)
        assert clean == harmed.startswith(raw), (number, fault)  # after the goodbye nothing is read


def test_a_stream_that_ends_without_goodbye_is_no_clean_end() -> None:
    got, clean = delivered(recorded([b"all there"], bye=False))
    assert (got, clean) == (b"all there", False)


def test_silence_ends_the_stream() -> None:
    near, far = os.pipe()
    reader = CheckedReader(near, silent_s=0.05)
    with pytest.raises(StreamDamaged, match=r"nothing arrived for 0\.05 s"):
        reader.read(1)
    assert reader.problem == "nothing arrived for 0.05 s"
    os.close(near)
    os.close(far)


def test_beats_keep_a_stream_with_nothing_to_say_alive() -> None:
    near, far = os.pipe()
    writer = CheckedWriter(lambda data: os.write(far, data))
    threading.Thread(target=writer.beat_for_ever, args=(0.02,), daemon=True).start()
    reader, began = CheckedReader(near, silent_s=20.0), time.monotonic()
    got: List[bytes] = []
    thread = threading.Thread(target=lambda: got.append(reader.read(5) or b""))
    thread.start()
    while time.monotonic() - began < 0.2:
        time.sleep(0.02)
    writer.send([b"hello"])
    thread.join(20)
    writer.bye()
    assert got == [b"hello"]
    os.close(near)
    os.close(far)
