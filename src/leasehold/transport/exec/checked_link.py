"""A link whose bytes travel in checked records: for transports that may damage, cut or freeze a stream."""

from __future__ import annotations

import io
import threading
from typing import Any, BinaryIO, cast

from leasehold.errors import LinkError
from leasehold.kit.wire.checked_stream import SILENT_S, CheckedReader, CheckedWriter
from leasehold.transport.contract import Link

_BLOCK_BYTES = 1 << 18


class CheckedLink:
    """Wraps a link after its handshake; damage ends it like a lost connection."""

    def __init__(self, link: Link, early: bytes, name: str, silent_s: float = SILENT_S) -> None:
        """Wrap; early is what was read after the handshake."""
        self._link = link
        self._name = name
        self._records = CheckedWriter(self._put)
        self._checked = CheckedReader(link.reader.fileno(), early, silent_s)
        self.reader = cast(BinaryIO, self._checked)
        self.writer = cast(BinaryIO, io.BufferedWriter(cast(Any, _Records(self._records)), _BLOCK_BYTES))
        threading.Thread(target=self._records.beat_for_ever, daemon=True).start()

    @property
    def pid(self) -> int:
        """Return the process that carries the stream."""
        return int(cast(Any, self._link).pid)

    def end(self) -> None:
        """Say that we leave, then hang up."""
        self._records.bye()
        self._link.end()

    def close(self) -> None:
        """End the stream and reap its process. A second call does nothing."""
        self._records.bye()
        self._link.close()

    def kill(self) -> None:
        """End the process at once."""
        cast(Any, self._link).kill()

    def failure(self) -> LinkError:
        """Explain why the stream ended: what was wrong with its bytes, or the transport's own words."""
        known = self._link.failure()
        if self._checked.problem is None or known.code != "link.lost":
            return known
        hint = "what arrived before is kept; the identical command goes on"
        what = f"the connection to {self._name} broke: {self._checked.problem}"
        return LinkError("link.lost", what, seen=known.seen, hint=hint)

    def _put(self, data: bytes) -> None:
        self._link.writer.write(data)
        self._link.writer.flush()


class _Records(io.RawIOBase):
    """The raw file below a buffered writer."""

    def __init__(self, records: CheckedWriter) -> None:
        super().__init__()
        self._to = records

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Send all of it."""
        count = len(data)
        self._to.send([data])
        return count
