"""The parcel's doors: serve a connection, care for a run, keep an attempt and make it ready, tell, nag, whoami."""

from __future__ import annotations

import os
import sys
from typing import List


def main(argv: List[str]) -> int:
    """Dispatch; imports stay behind each door so that keeper and caretaker stay small."""
    door = argv[0] if argv else ""
    if door == "serve" and len(argv) == 2:
        from .serve import serve

        return serve(argv[1])
    if door == "care" and len(argv) in (2, 4):
        from .layout import RunFolder
        from .supervise import care

        os.chdir("/")
        return care(RunFolder(argv[1]), *argv[2:])
    if door == "keep" and len(argv) == 4:
        from .keeper import keep
        from .layout import RunFolder

        return keep(RunFolder(argv[1]), argv[2], int(argv[3]))
    if door == "settle" and len(argv) > 1:
        from .platform_shell import settle

        settle(argv[1:])
    if door in ("fetch", "pull") and len(argv) == 2:
        from . import fetch
        from .layout import RunFolder

        return (fetch.fetch if door == "fetch" else fetch.pull)(RunFolder(argv[1]))
    if door == "copy" and len(argv) == 2:
        from .durable import copy_run
        from .layout import RunFolder

        return copy_run(RunFolder(argv[1]))
    if door == "ready" and len(argv) == 4:
        from .layout import RunFolder
        from .setting_up import ready

        return ready(RunFolder(argv[1]), argv[2], int(argv[3]))
    if door == "whoami" and len(argv) == 1:
        from .whoami import answer_stream

        return answer_stream(sys.stdin, sys.stdout)
    if door == "nag" and len(argv) == 2:
        from .layout import RunFolder
        from .nag import nag

        return nag(RunFolder(argv[1]))
    if door == "notice" and len(argv) == 1:
        from .notices import notice

        return notice(sys.stdin)
    if door == "tell" and len(argv) == 2:
        from .layout import RunFolder
        from .telling import tell

        return tell(RunFolder(argv[1]), sys.stdin)
    sys.stderr.write(
        "usage: serve ROOT | care RUN [DETACH RESUME_BY] | keep RUN CELL ATTEMPT | ready RUN CELL ATTEMPT"
        " | settle COMMAND… | fetch RUN | pull RUN | copy RUN | nag RUN | notice | tell RUN | whoami\n"
    )
    return 64
