"""The keeper of a trainer that was started elsewhere: it watches, never starts, and records what it saw of the end."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Mapping, Optional

from leasehold.caretaker.process.process_table import age_of
from leasehold.kit.files.atomic import write_json
from leasehold.kit.run.processes import boot_id, is_alive, look

_LOOK_S = 1.0
_NO_SECOND = 69  # an adopted trainer is not started again


def watch_adopted(
    place: str, adopted: Mapping[str, Any], attempt: int, pause: Callable[[float], None]
) -> Dict[str, Any]:
    """Wait until that very process is gone; return its exit record, in which the code may be unknown."""
    pid, started = int(adopted["pid"]), str(adopted["started"])
    log = os.path.join(place, "log")
    if not os.path.lexists(log):
        os.symlink(str(adopted.get("log") or os.devnull), log)
    if attempt > 1:
        return _record(_NO_SECOND, None)
    _write_started(place, pid, started)
    while is_alive(pid, started):
        pause(_LOOK_S)
    return _record(*_last_status(pid, started))


def _write_started(place: str, pid: int, started: str) -> None:
    age_s = age_of(started) if started.isdigit() else 0.0  # also one that has ended by now
    facts: Dict[str, Any] = {"pid": pid, "started": started, "at": round(time.time() - age_s, 3), "boot": boot_id()}
    facts["up_s"] = round(time.monotonic() - age_s, 3)
    write_json(os.path.join(place, "started.json"), facts)


def _last_status(pid: int, started: str) -> Any:
    """Read the exit status of a zombie that its parent has not reaped; a process that is gone has none."""
    process = look(pid)
    if process is None or process.started != started:
        return None, None
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            text = file.read()
        status = int(text[text.rindex(b")") + 2 :].split()[49])
    except (OSError, ValueError, IndexError):
        return None, None
    by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else None), by_signal


def _record(code: Optional[int], by_signal: Optional[int]) -> Dict[str, Any]:
    record: Dict[str, Any] = {"code": code, "signal": by_signal, "ended_unix": round(time.time(), 3), "by": "adopter"}
    return dict(record, unseen=True) if code is None and by_signal is None else record
