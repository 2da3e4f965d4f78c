"""Find training started without us: long-lived processes of our user, their output files, their logs."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from leasehold.caretaker.process.process_table import Entry, ProcessTable
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.atomic import read_link
from leasehold.kit.files.globbing import walk
from leasehold.kit.run.processes import MARK, environment
from leasehold.kit.text.redact import Redactor

_YOUNG_S = 60.0
_MOST = 20
_MOST_WALKED = 20000
_MOST_OUTPUTS = 8
_COMMAND_CHARS = 400
_TRAINS = re.compile(r"python|torchrun|accelerate|deepspeed|mpirun|horovodrun|julia|lua")
_NEVER = re.compile(r"jupyter|ipykernel|tensorboard|supervisord|gunicorn|vscode|pip install|leasehold/caretaker")
_WEIGHTS = re.compile(r"\.(pt|pth|ckpt|safetensors|bin|npz|h5|pkl|msgpack)\Z")
_O_ACCMODE = 3
_SLACK_S = 5.0  # reading every process takes a while


def answer(request: Request) -> None:
    """List candidates, the likeliest first; change nothing."""
    young_s = float(request.args.get("young_s", _YOUNG_S))
    for found in candidates(ProcessTable(), young_s)[:_MOST]:
        request.reply(found)


def candidates(table: ProcessTable, young_s: float = _YOUNG_S) -> List[Dict[str, Any]]:
    """Find processes that may be training; of a process tree only its top, with the rest counted as its workers."""
    fitting = {entry.pid: entry for entry in table.entries.values() if _fits(table, entry, young_s)}
    tops = [entry for pid, entry in fitting.items() if not any(above in fitting for above in table.above(pid))]
    found = [_describe(table, entry, [pid for pid in fitting if entry.pid in table.above(pid)]) for entry in tops]
    return sorted(found, key=lambda one: (-len(one["gpus"]), not one["out"], -one["cpu_s"]))


def identity(pid: int) -> Optional[Entry]:
    """Look up one process as the kernel knows it now."""
    return ProcessTable().entries.get(pid)


def _fits(table: ProcessTable, entry: Entry, young_s: float) -> bool:
    if entry.user_id != os.getuid() or entry.age_s < young_s or entry.pid == os.getpid():
        return False
    command = table.command(entry.pid)
    if _NEVER.search(command) or MARK in environment(entry.pid):
        return False  # ours, or somebody's tool
    return bool(_TRAINS.search(command.split(" ")[0])) or bool(_gpus(table, entry.pid))


def _describe(table: ProcessTable, entry: Entry, workers: List[int]) -> Dict[str, Any]:
    clean = Redactor()
    pids = [entry.pid, *workers]
    log, outputs = _writes(pids)
    cwd = read_link("/proc/%d/cwd" % entry.pid)
    born_unix = time.time() - entry.age_s - _SLACK_S
    return {
        "pid": entry.pid,
        "started": entry.started,
        "age_s": round(entry.age_s),
        "command": clean.tree(table.command(entry.pid)[:_COMMAND_CHARS]),
        "cwd": cwd,
        "workers": len(workers),
        "cpu_s": round(sum(table.entries[pid].cpu_ticks for pid in pids) / os.sysconf("SC_CLK_TCK")),
        "gpus": sorted({card for pid in pids for card in _gpus(table, pid)}),
        "log": log,
        "outputs": outputs[:_MOST_OUTPUTS],
        "out": _guess_out(cwd, outputs, born_unix),
    }


def _writes(pids: List[int]) -> Tuple[str, List[str]]:
    """Return where stdout goes, if to a file, and which other files are open for writing."""
    log, outputs = "", []
    for pid in pids:
        for number, path in _written(pid):
            if number in (1, 2):
                log = log or path
            elif path not in outputs:
                outputs.append(path)
    return log, [path for path in outputs if path != log]


def _written(pid: int) -> Iterator[Tuple[int, str]]:
    """Yield plain files that a process has open for writing."""
    folder = "/proc/%d/fd" % pid
    try:
        numbers = sorted(int(name) for name in os.listdir(folder))
    except OSError:
        return
    for number in numbers:
        path = read_link("%s/%d" % (folder, number))
        try:
            if not stat.S_ISREG(os.stat("%s/%d" % (folder, number)).st_mode) or path.endswith(" (deleted)"):
                continue
            with open("/proc/%d/fdinfo/%d" % (pid, number), encoding="ascii") as file:
                flags = int(re.search(r"flags:\s*(\d+)", file.read()).group(1), 8)  # type: ignore[union-attr]
        except (OSError, ValueError, AttributeError):
            continue
        if flags & _O_ACCMODE:
            yield number, path


def _guess_out(cwd: str, outputs: List[str], born_unix: float) -> str:
    """Guess the output folder: where weights were written since the start; else where files are open."""
    newest, folder = 0.0, ""
    with contextlib.suppress(OSError):  # its folder was deleted, or we may not read it
        for number, found in enumerate(walk(cwd) if cwd.startswith("/") and cwd != "/" else ()):
            if number >= _MOST_WALKED:
                break
            if found.is_file and found.info.st_mtime >= max(born_unix, newest) and _WEIGHTS.search(found.path):
                newest, folder = found.info.st_mtime, os.path.dirname(os.path.join(cwd, found.path))
    return folder or (os.path.dirname(outputs[0]) if outputs else "")


def _gpus(table: ProcessTable, pid: int) -> List[str]:
    return [path for path in set(table.open_paths(pid)) if re.match(r"/dev/nvidia\d+\Z", path)]
