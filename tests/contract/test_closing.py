"""A connection is closed when nobody reads it any more: its number may be the next connection's at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.transport.process import LocalTransport
from leasehold.transport.wire import Wire


def test_the_stream_is_closed_only_after_its_reader_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(LocalTransport(), str(tmp_path / "root"))
    link, still_read = wire._link, []
    close = link.close
    monkeypatch.setattr(link, "close", lambda: (still_read.append(wire._pump.is_alive()), close()))
    wire.ask("ping")
    wire.close()
    assert still_read == [False]
    wire.close()  # a second call does nothing
