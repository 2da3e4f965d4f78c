"""Ask one tool of many files: `python -m bench.corpora.worker TOOL SIGNS LIMIT_S`, a path a line in, JSON a line out.

Each file has a process of its own, forked from one that has loaded the tool, so its memory and time are its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

from bench.corpora.scanners import TOOLS, Ask
from bench.corpora.watch import watch

_ADDRESS_BYTES = 32 << 30
_MOST_TEXT = 400


def main() -> None:
    """Serve paths until stdin ends."""
    tool, signs, limit_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    ask = TOOLS[tool]()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a tool prints is no answer
    for line in sys.stdin:
        path = json.loads(line)
        answers.write(json.dumps({"path": path, **_asked(tool, ask, path, signs, limit_s)}) + "\n")
        answers.flush()


def _asked(tool: str, ask: Ask, path: str, signs: str, limit_s: float) -> dict[str, object]:
    watched = tool != "stock"  # its own hook stops each load before anything is called
    reading, writing = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(ask, path, writing, signs if watched else "", tool == "leasehold")
    os.close(writing)
    said, hang = _collect(reading, began + limit_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    seconds = time.monotonic() - began
    answer: dict[str, object] = json.loads(said) if said and not hang else {"views": {}, "broke": "no answer"}
    found = sorted(os.listdir(signs)) if watched else []
    for name in found:
        left = os.path.join(signs, name)
        os.rmdir(left) if os.path.isdir(left) else os.remove(left)
    return {
        **answer, "hang": hang, "seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024, "signs": found, "status": status,
    }  # fmt: skip


def _collect(reading: int, until: float) -> tuple[bytes, bool]:
    """Read until the answer ends; say whether the time was up before."""
    said = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return said, True
            piece = pipe.read(1 << 16)
            if not piece:
                return said, False
            said += piece


def _answer(ask: Ask, path: str, writing: int, signs: str, ours: bool) -> NoReturn:
    answer: dict[str, object] = {"views": {}}
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))
        if signs:
            watch(signs, _starts_readers if ours else _unpacks)
        answer["views"] = {view: (said, why[:_MOST_TEXT]) for view, (said, why) in ask(path).items()}
    except BaseException as error:  # noqa: BLE001  the process boundary: how a tool breaks is a result
        answer["broke"] = f"{type(error).__name__}: {str(error)[:_MOST_TEXT]}"
    with contextlib.suppress(BaseException):
        os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def _starts_readers(event: str, details: tuple[Any, ...]) -> bool:
    """Home starts the confined processes, which are watched themselves, and removes what it asked them with."""
    return event in ("subprocess.Popen", "os.remove")


def _unpacks(event: str, details: tuple[Any, ...]) -> bool:
    """A scanner may unpack an archive into a folder and remove it."""
    return event in ("os.chmod", "os.remove")


if __name__ == "__main__":
    main()
