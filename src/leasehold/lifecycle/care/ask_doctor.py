"""Collect a run's or a box's evidence for the doctor: logs of every cell, exit codes, the box's measurements."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.doctor.diagnose import diagnose
from leasehold.doctor.finding import Diagnosis
from leasehold.doctor.reading import read_log, read_stream
from leasehold.errors import LinkError, UserError
from leasehold.kit.events.table import describe
from leasehold.kit.failure.catalogue import Book
from leasehold.kit.failure.evidence import Context, from_readings
from leasehold.kit.failure.suspects import ReadLog
from leasehold.kit.failure.who_killed_it import NO_OOM
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.results.home_copy import HomeCopy, seen_from
from leasehold.model.lease.lease import RunRecord

from .doctor_looks import cluster_events, name_interpreter, what_fills

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import CellSeen, RunSeen
    from leasehold.platforms.contract import Engine


_LOG_NAMES = ("*.log", "*.out", "*.err", "*.txt", "stdout", "stderr", "log")
_SIGNALLED = 128
_OF_A_STOP = (_SIGNALLED + 15, _SIGNALLED + 9)
_SHOWN_WAITS = 10
_DECISIONS = (
    "nan_stop", "failure_classed", "remedy_chosen", "scratch_pruned", "disk_short", "stalled", "fast_finished",
)  # fmt: skip


def diagnose_files(book: Book, words: list[str], context: Context) -> Diagnosis:
    """Diagnose the named files and folders as the logs of one run, one rank each."""
    paths = [path for word in words for path in _logs_in(Path(word))]
    named = replace(context, values={"log": str(paths[0]), "dir": str(paths[0].parent), **context.values})
    return diagnose(book, [read_log(book, path) for path in paths], named)


def diagnose_run(home: Home, book: Book, word: str, context: Context) -> Diagnosis:
    """Diagnose a run's newest attempts: from the box, or from the home copy when it does not answer."""
    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    known = replace(context, platform=context.platform or lease.platform, values=_values(record))
    said = cluster_events(home, lease)
    heard = [read_stream(book, "events of the cluster", iter([text.encode()])) for text in said]
    known = replace(known, states=(*known.states, *said))
    try:
        engine = seen_from(home, record)
    except LinkError:
        if not heard:
            raise
        return diagnose(book, heard, known)  # its pod waits, or is gone with its volume: the cluster says why
    if isinstance(engine, HomeCopy):
        return _from_copy(engine, book, record, known)
    with engine:
        return _from_box(engine, book, record, known, heard)


def diagnose_box(home: Home, book: Book, name: str, context: Context) -> Diagnosis:
    """Measure a box and diagnose it."""
    box = box_called(home, name)
    with box.look_in() as engine:
        taken = engine.box.readings([str(engine.box.probe()["root"]), "/"])
    return diagnose(book, [read_stream(book, "readings", iter([_spoken(taken)]))], _platform(box, taken, context))


def _from_copy(copy: HomeCopy, book: Book, record: RunRecord, context: Context) -> Diagnosis:
    """Diagnose the home copy: logs and journal. What a box would measure now is unknown."""
    seen = copy.look(record.run)
    logs = [
        read_log(book, path)
        for cell, state in seen["cells"].items()
        if (path := copy.folder / cell / f"attempt-{int(state.get('attempt') or 0):04d}" / "log").is_file()
    ]
    codes = [_exit_code(state) for state in seen["cells"].values()]
    failed = next((code for code in codes if code), 0 if seen["state"] == "finished" else None)
    code = failed if context.exit_code is None else context.exit_code
    told = replace(context, exit_code=code, own_kill=bool(seen.get("stops")))
    events = [event for batch in copy.events(record.run, 0, 0) for event in batch["events"]]
    return replace(diagnose(book, logs, told), done=tuple(_done(events)), home_copy=copy.words)


def _from_box(engine: Engine, book: Book, record: RunRecord, context: Context, heard: list[ReadLog]) -> Diagnosis:
    seen = engine.observe.look(record.run)
    root = str(engine.box.probe()["root"])
    logs = [
        read_stream(book, _place(root, record.run, cell, state), _tail(engine, record, cell, state))
        for cell, state in seen["cells"].items()
        if int(state.get("attempt", 0))
    ]
    logs += heard
    events = [event for batch in engine.observe.events(record.run, 0, 0) for event in batch["events"]]
    stopped = seen.get("state") == "stopped"
    codes = [None if stopped and _is_ours(state) else _exit_code(state) for state in seen["cells"].values()]
    failed = next((code for code in codes if code), 0 if seen.get("state") == "finished" else None)
    measured = from_readings(engine.box.readings([root, "/"]), running=True)
    told = replace(
        context,
        exit_code=failed if context.exit_code is None else context.exit_code,
        own_kill=stopped,
        oom_kills=_oom_kills(events),
        values={**context.values, **({"log": logs[0].name, "dir": os.path.dirname(logs[0].name)} if logs else {})},
        states=(*context.states, *_cluster_states(seen["cells"])),
        inodes_used=measured.inodes_used,
        disk_used=measured.disk_used,
        overlay_used=measured.overlay_used,
    )
    waits = [f"{cell}: {state['waits']}" for cell, state in seen["cells"].items() if state.get("waits")]
    ours = [_say_stop(seen)] if stopped else []
    found = diagnose(book, logs, told)
    found = replace(found, findings=tuple(name_interpreter(one, engine, record, events) for one in found.findings))
    fills = what_fills(engine, root) if any(one.klass == "disk-full" for one in found.findings) else []
    return replace(found, done=(*ours, *_done(events), *fills, *waits[:_SHOWN_WAITS]))


def _is_ours(state: CellSeen) -> bool:
    """Return whether a cell of a stopped run ended by a signal that a stop sends."""
    return _exit_code(state) in _OF_A_STOP


def _say_stop(seen: RunSeen) -> str:
    """Format who ended the run, and by which signals."""
    sent = sorted({int(state["signal"]) for state in seen["cells"].values() if state.get("signal")})
    signals = f"; its caretaker sent signal {', '.join(map(str, sent))}" if sent else ""
    return f"Leasehold ended it: {one_line(str(seen.get('reason') or 'stopped on request'))}{signals}"


def _oom_kills(events: list[dict[str, Any]]) -> int | None:
    """Return the OOM kills that the caretaker found when the newest failure was fresh: 0 where there were none."""
    classed = [event for event in events if event["k"] == "failure_classed"][-1:]
    said = [str(line) for event in classed for line in event.get("evidence") or ()]
    return 0 if any(line.startswith(NO_OOM) for line in said) else None


def _cluster_states(cells: dict[str, Any]) -> list[str]:
    """List the scheduler's states of the tasks of cells that have not ended well."""
    said = [str(cell.get("cluster") or "") for cell in cells.values() if cell.get("state") != "finished"]
    return [state for state in dict.fromkeys(said) if state]


def _done(events: list[dict[str, Any]]) -> list[str]:
    """Return what the box's caretaker saw and did about each cell's newest failure."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        if event["k"] in _DECISIONS:
            newest.pop((str(event.get("cell")), event["k"]), None)
            newest[str(event.get("cell")), event["k"]] = event
    return [line for event in newest.values() for line in describe(event).splitlines()]


def _place(root: str, run: str, cell: str, state: CellSeen) -> str:
    """Return a log's path on the box, so that commands can be typed there."""
    return f"{root}/active/{run}/cells/{cell}/attempt-{int(state['attempt']):04d}/log"


def _tail(engine: Engine, record: RunRecord, cell: str, state: CellSeen) -> Any:
    return engine.observe.tail(record.run, cell, int(state["attempt"]), 0, 0)


def _exit_code(state: CellSeen) -> int | None:
    if state.get("signal"):
        return _SIGNALLED + int(state["signal"])
    return None if state.get("code") is None else int(state["code"])


def _values(record: RunRecord) -> dict[str, str]:
    job = json.loads(record.plan_json).get("job", {})
    return {"run": record.run, "box": record.box, "gpus": str(job.get("gpus") or "gpu")}


def _platform(box: Box, taken: dict[str, Any], context: Context) -> Context:
    measured = from_readings(taken, running=True)
    return replace(measured, platform=context.platform or box.platform, states=context.states)


def _spoken(taken: dict[str, Any]) -> bytes:
    """Format readings as lines, so that the same matcher reads them too."""
    lines = [str(taken.get("gpu_problem") or "")]
    for disk in taken.get("disks") or []:
        free, inodes = disk.get("free_bytes"), disk.get("free_inodes")
        if disk.get("total_bytes") and (free == 0 or (inodes == 0 and disk.get("total_inodes"))):
            lines.append(f"{disk['path']}: No space left on device")
        if disk.get("read_only"):
            lines.append(f"{disk['path']}: Read-only file system")
    return ("\n".join(filter(None, lines)) + "\n").encode()


def _logs_in(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        hint = "name a log, a folder of rank logs, a run (lease status) or a box (lease box list); - reads stdin"
        raise UserError("doctor.nothing_there", f"{path} is not a file, run, box or catalogue id", hint=hint)
    found = sorted({one for pattern in _LOG_NAMES for one in path.rglob(pattern) if one.is_file()})
    if not found:
        raise UserError("doctor.no_logs", f"no log below {path}", hint=f"names that count: {', '.join(_LOG_NAMES)}")
    return found
