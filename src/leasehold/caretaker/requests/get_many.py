"""Send many small files below a run's folder in one answer: on a slow link, one request for each would take hours."""

from __future__ import annotations

import os
from typing import Any, Callable

from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.scrub_secrets import read_clean, redactor_of
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.paths import UnsafePath, open_below
from leasehold.kit.text.redact import Redactor
from leasehold.kit.wire import frames


def get_many(request: Request) -> None:
    """Send {file: number} and the bytes of each [area, cell, path] that exists; omit the others."""
    folder = folder_of(request)
    redactor = redactor_of(folder)
    for number, item in enumerate(request.args.get("items") or []):
        if request.gone:
            return
        try:
            area, cell, path = (str(word) for word in item)
            fd = open_below(os.path.join(folder.path, *_area(folder, area, cell)), path)
        except (OSError, UnsafePath):
            continue
        except (TypeError, ValueError):
            raise Refused("wire.bad_request", "a file is [area, cell, path]") from None
        try:
            request.reply({"file": number})
            _send(request, _reading(fd, redactor if area == "cells" and os.path.basename(path) == "log" else None))
        finally:
            os.close(fd)


def _area(folder: RunFolder, area: str, cell: str) -> Any:
    if area == "cells":
        return ["cells", os.path.basename(folder.cell(cell))]
    if area == "run":
        return []
    raise Refused("wire.bad_request", "no area %r" % area)


def _reading(fd: int, redactor: "Redactor | None") -> Callable[[int], bytes]:
    if redactor is None:
        return lambda offset: os.pread(fd, frames.CHUNK_BYTES, offset)
    return lambda offset: read_clean(fd, offset, frames.CHUNK_BYTES, redactor)


def _send(request: Request, read: Callable[[int], bytes]) -> None:
    offset = 0
    while not request.gone:
        chunk = read(offset)
        if not chunk:
            return
        request.data(chunk)
        offset += len(chunk)
