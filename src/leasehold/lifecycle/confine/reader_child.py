"""The confined process that reads one file or a few: a request on stdin, the walls reached and its answer on stdout.

Run by path with `python -I -S -B`, never imported by the parent. It reaches `leasehold` through the source
folder that holds it, so the `__init__` modules on the way must stay free of imports from outside the stdlib.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from leasehold.kit.readers import Reading, Source, Unreadable, limits_within, open_source, read_source
from leasehold.lifecycle.confine import walls

_OPEN_FILES = 16


def main() -> None:
    """Read the file named in the request on stdin."""
    attend(json.load(sys.stdin))


def attend(request: dict[str, Any], behind: Sequence[str] = ()) -> None:
    """Open the file, or all of several, drop every right that reading does not need, read, answer for each.

    `behind` names walls that the forking process has already raised.
    """
    if "paths" not in request and os.path.isdir(request["path"]):
        _read_folder(request, behind)
        return
    opened = [_open(path) for path in request.get("paths") or [request["path"]]]
    if behind:
        walls.leave_rights()
    reached = [*(behind or walls.leave_network(reopens_files=False)), *walls.forbid_new_privileges()]
    reached += walls.limit_resources(request["cpu_s"], request["memory_bytes"], _OPEN_FILES)
    _say({"confinement": reached})
    for source in opened:
        _say({"ok": False, "reason": source} if isinstance(source, str) else _read(source, request))


def _open(path: str) -> Source | str:
    """Open a file, or return the reason why not."""
    try:
        return open_source(path)
    except Unreadable as error:
        return error.reason


def _read_folder(request: dict[str, Any], behind: Sequence[str]) -> None:
    """Read a checkpoint folder; its files are opened behind the walls, one at a time."""
    from leasehold.kit.readers.checkpoints.folders import read_folder

    reached = [*(behind or walls.leave_network(reopens_files=True)), *walls.forbid_new_privileges()]
    reached += walls.limit_resources(request["cpu_s"], request["memory_bytes"], _OPEN_FILES)
    _say({"confinement": reached})
    limits = limits_within(request["memory_bytes"], request["memory_bytes"])
    _say(_answer(lambda: read_folder(request["path"], limits), request))


def _read(source: Source, request: dict[str, Any]) -> dict[str, object]:
    limits = limits_within(request["memory_bytes"], source.size)
    return _answer(lambda: read_source(source, request["kind"], limits), request)


def _answer(reading: Callable[[], Reading], request: dict[str, Any]) -> dict[str, object]:
    too_much = {"ok": False, "reason": request.get("too_much", "reading it takes too much memory or time")}
    try:
        return {"ok": True, "reading": reading().as_dict()}
    except Unreadable as error:
        return {"ok": False, "reason": error.reason}
    except (MemoryError, walls.TimeIsUp):
        return too_much
    except Exception as error:  # noqa: BLE001  the process boundary: a bug here must not read as success
        return {"ok": False, "reason": f"the reader failed: {type(error).__name__}: {error}"}


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
