"""Remember successful connections, so that the next command opens ssh to a box before it loads itself.

All code that opens, pulls or gives up a box uses only this module for it. Other modules are loaded on need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import LinkError

from . import first_call

if TYPE_CHECKING:
    from .contract import Transport


class EarlyCalls:
    """The remembered connections of one home."""

    def __init__(self, home: Path) -> None:
        self._folder = first_call.calls_folder(os.fspath(home))

    @contextmanager
    def opening(self, name: str, transport: Transport) -> Iterator[Transport]:
        """Return the transport to a box; its first link is opened early if the box was reached before.

        A successful connection is remembered for the next command; a failed one is forgotten.
        """
        from .ahead import CalledAhead
        from .openssh import SshTransport
        from .parcel import boot_command

        if not isinstance(transport, SshTransport) or not transport.stays:
            yield transport
            return
        if not transport.met:
            yield transport
            first_call.remember(self._folder, name, transport.argv(boot_command()))
            return
        called = CalledAhead(transport, lambda argv: first_call.remember(self._folder, name, argv))
        try:
            yield called
        except LinkError:
            first_call.forget(self._folder, name)
            raise
        finally:
            called.hang_up()

    def remembering(self, *runs: str) -> Callable[[list[str]], None]:
        """Return a callback that stores the command line by which the box of these runs answered."""

        def answered(argv: list[str]) -> None:
            for run in runs:
                first_call.remember(self._folder, first_call.of_run(run), argv)

        return answered

    def forget(self) -> None:
        """Forget every connection: a box has moved or is gone."""
        first_call.forget(self._folder)
