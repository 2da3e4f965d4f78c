"""One connection: an operation that answers early leaves the others a working line."""

from __future__ import annotations

import os
import threading
import time

from leasehold.caretaker.wire.connection import Connection, Refused, Request
from leasehold.kit.wire import frames

MANY = 500  # more than the queue of one request holds


def refuses(request: Request) -> None:
    while not request.inbox.full():  # home has sent more than we shall ever take
        time.sleep(0.001)
    raise Refused("test.no", "not today")


def answers(request: Request) -> None:
    request.reply({"fine": True})


def test_a_refused_body_does_not_block_the_requests_behind_it() -> None:
    """The reader offers frames to an operation that has long answered; it must go on to the next request."""
    to_box, from_home = os.pipe()
    to_home, from_box = os.pipe()
    reader, writer = os.fdopen(to_box, "rb"), os.fdopen(from_box, "wb")
    connection = Connection("/", reader, writer)
    served = threading.Thread(target=connection.run, args=({"no": refuses, "yes": answers},), daemon=True)
    served.start()

    def speak() -> None:
        with os.fdopen(from_home, "wb") as line:
            line.write(frames.pack_json(1, {"op": "no"}))
            for _ in range(MANY):
                line.write(frames.pack(1, frames.DATA, b"x" * 100))
            line.write(frames.pack_json(2, {"op": "yes"}))

    threading.Thread(target=speak, daemon=True).start()
    heard = {}
    with os.fdopen(to_home, "rb") as line:
        while 2 not in heard:
            frame = frames.read_frame(line)
            assert frame is not None
            heard.setdefault(frame.request, frame.type)
        assert heard[1] == frames.ERROR
        served.join(20)
        assert not served.is_alive(), "the reader ends with the stream"
        writer.close()
    reader.close()
