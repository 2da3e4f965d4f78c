"""The hasher follows the arrivals: each byte of a large file is read once, while it is still in memory."""

from __future__ import annotations

import threading
from hashlib import sha256
from typing import Any

from leasehold.kit.wire.frames import BLOCK_BYTES
from leasehold.lifecycle.pull.files.incoming_file import Coming

from .scheduler import Desk


class Hasher:
    """A thread that hashes files as far as they have arrived without a gap."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._states: dict[int, tuple[Any, int]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True, name="hasher")
        self._thread.start()

    def join(self, timeout_s: float = 10.0) -> None:
        """Wait until the thread has ended; the desk must be closed or complete."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        desk = self._desk
        try:
            while not self._over():
                with desk.lock:
                    desk.to_hash = [file for file in desk.to_hash if not (file.proved or file.skipped)]
                    work = [(file, file.home.prefix) for file in desk.to_hash if self._ready(file)]
                    if not work:
                        desk.bytes_came.wait(0.2)
                for file, upto in work:
                    self._follow(file, upto)
        except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever waits must hear of it
            desk.fail(error)

    def _over(self) -> bool:
        desk = self._desk
        return desk.closed or desk.failure is not None or desk.complete

    def _ready(self, file: Coming) -> bool:
        """Return whether there is something to hash, or a sum to compare."""
        done = self._states.get(file.number, (None, 0))[1]
        return not file.mending and (file.home.prefix != done or (done == file.bytes and bool(file.sha256)))

    def _follow(self, file: Coming, upto: int) -> None:
        digest, done = self._states.get(file.number, (None, 0))
        if digest is None or upto < done:  # its bytes were withdrawn
            digest, done = sha256(), 0
        while done < upto and not self._over():
            parts = self._desk.fresh.take(file.number, done)
            if parts is None:  # no longer in memory: read up to the next whole block, which may be
                parts = [file.read(min(BLOCK_BYTES - done % BLOCK_BYTES, upto - done), done)]
            size = sum(len(part) for part in parts)
            if not size:
                break
            for part in parts:
                digest.update(part)
            done += size
        self._states[file.number] = (digest, done)
        if done == file.bytes and file.sha256 and not file.mending:
            self._states.pop(file.number)
            file.close()
            self._desk.prove(file, digest.hexdigest())
