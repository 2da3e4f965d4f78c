"""Split a log's bytes, as they arrive, into whole lines of plain text."""

from __future__ import annotations

from leasehold.kit.text.safe_text import plain

_MAX_LINE_BYTES = 16 << 10


class LogLines:
    """Turns chunks of bytes into whole lines of plain text, so that no character or escape is cut in two."""

    def __init__(self) -> None:
        self._held = b""

    def add(self, chunk: bytes) -> str:
        """Add bytes; return the text of the lines that they complete."""
        data = self._held + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) > _MAX_LINE_BYTES:
            cut = len(data)
        self._held = data[cut:]
        return plain(data[:cut].decode("utf-8", "replace"))

    def rest(self) -> str:
        """Return the remainder without a line end."""
        data, self._held = self._held, b""
        return plain(data.decode("utf-8", "replace"))
