"""The handshake on a link: our question, and our answer found among whatever else a login prints."""

from __future__ import annotations

import os
import secrets
import selectors
import time

from leasehold.errors import LinkError
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.wire.frames import MAGIC

from . import parcel
from .contract import Link, Transport
from .flavour import SWALLOWED, refuse_closed_door
from .patience import ENDLESS, LONGER, TICK_S, Waiting, WaitLimits

HANDSHAKE_TIMEOUT_S = 60.0
_NO_PARCEL = parcel.Parcel("-", b"")
_DOUBT_S = (10.0, 2.0)  # so much silence starts a probe: of a mute server, of one that prints and then waits
_NOISE_BYTES = 32 << 20
_KEPT_BYTES = 64 << 10
_BLOCK_BYTES = 1 << 16


def greet(link: Link, root: str, python_hint: str = "", built: parcel.Parcel = _NO_PARCEL, verb: str = "serve") -> str:
    """Send the variable part to the boot line; return the nonce that its answer will carry."""
    nonce = secrets.token_hex(8)
    escaped = "".join(f"\\0{byte:03o}" for byte in root.encode("utf-8"))
    # No line is blank: in a menu that answers instead of the box, a bare Enter could choose something.
    lines = [nonce, f"={escaped}", f"={python_hint}", built.sha256, str(len(built.data)), verb]
    say(link, "".join(line + "\n" for line in lines).encode())
    return nonce


def say(link: Link, data: bytes) -> None:
    """Send bytes; a link that accepts none raises why."""
    try:
        link.writer.write(data)
        link.writer.flush()
    except OSError:
        raise link.failure() from None


class Ear:
    """Reads our lines from one link; rest is what followed the last of them."""

    def __init__(self, link: Link, transport: Transport, limits: WaitLimits = ENDLESS) -> None:
        self.link = link
        self.rest = b""
        self._transport = transport
        self._limits = limits

    def hello(self, nonce: str, patience_s: float) -> str:
        """Skip noise up to our own line and return its verdict; raises for a server that runs no commands."""
        wanted = MAGIC + nonce.encode()
        patience_s = min(patience_s, self._limits.first_word_s)
        waiting = Waiting(self._limits, self._transport.name, "the first word", patience_s)
        deadline = time.monotonic() + patience_s
        heard, self.rest, skipped, doubted = self.rest, b"", 0, False
        while skipped < _NOISE_BYTES:
            start = heard.find(wanted)
            line, end, rest = heard[start:].partition(b"\n") if start >= 0 else (b"", b"", b"")
            if end:
                self.rest = rest
                return line[len(wanted) :].decode("utf-8", "replace").strip()
            if start < 0 and len(heard) > _KEPT_BYTES:
                heard = heard[-len(wanted) :]  # the noise ends where ours begins, which may be split in two
            left_s = deadline - time.monotonic()
            doubted = doubted or self._no_doubt()
            block = self._read(left_s if doubted else min(left_s, _DOUBT_S[bool(heard)]), waiting)
            if block:
                heard += block
                skipped += len(block)
            elif block is None and not doubted and left_s > 0:
                doubted = True
                refuse_closed_door(self._transport)
            else:
                raise self._silent(patience_s, heard) if block is None else self._over(heard)
        raise LinkError("link.noise", "the box's login prints too much to find our answer in", seen=_tail(heard))

    def _no_doubt(self) -> bool:
        """Return whether no probe is needed: the server ran our commands before, and the caller's wait is limited."""
        return self._limits.bounded and getattr(self._transport, "met", False) is True

    def _read(self, limit_s: float, waiting: Waiting) -> bytes | None:
        """Read what is available; empty at the end, None if nothing arrived in time."""
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.link.reader, selectors.EVENT_READ)
            while not selector.select(max(0.0, min(TICK_S, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    return None
                waiting.look()
        return os.read(self.link.reader.fileno(), _BLOCK_BYTES)

    def _silent(self, patience_s: float, heard: bytes) -> LinkError:
        return LinkError(
            "link.timeout",
            f"no answer within {patience_s:.0f} s",
            seen=_tail(heard),
            hint=LONGER if self._no_doubt() else SWALLOWED,
        )

    def _over(self, heard: bytes) -> LinkError:
        known = self.link.failure()
        if heard.strip() or known.code == "link.lost":  # the login succeeded: did it run our command?
            refuse_closed_door(self._transport)
        return known


def _tail(heard: bytes) -> str:
    return one_line(heard[-200:].decode("utf-8", "replace"))
