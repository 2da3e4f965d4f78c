"""Remind people of a run that has ended, again and again, until they silence it or the box is gone."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from leasehold.caretaker.process.locks import try_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.events.ending import final_words
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.run_state import RunState, fold
from leasehold.kit.tables.topics import DEFAULT, HIGH, wanted

from .dispatcher import Watcher, no_note

_AFTER_S = (15 * 60, 3600)
_EVERY_S = 4 * 3600
_SLICE_S = 30.0
_SENDING_SLICE_S = 0.2
_GIVE_UP_S = 30 * 86400.0
_METER_S = 24 * 3600.0  # home itself reports it before every command from then on


def nag(folder: RunFolder, clock: Any = time, watcher: Optional[Watcher] = None) -> int:
    """Send what is still queued, then remind when due; leave when silenced, resumed, or if another process does it."""
    if try_lock(os.path.join(folder.path, "nag.lock")) is None:
        return 0
    watcher = watcher or Watcher(folder, {}, no_note)
    while True:
        wishes = dict(read_json(folder.notify) or {}, run=folder.run)
        events = journal.read_from(folder.journal, 0)[0]
        run = fold(events)
        gone = not wishes.get("channels") or not run.terminal or os.path.exists(folder.hush)
        if gone or clock.time() - run.changed_unix > _GIVE_UP_S:
            return 0
        watcher.step()
        nags = "meter" in wanted(wishes) and not enough(folder, run, wishes, clock.time())
        if not nags and watcher.quiet:
            return 0
        sent = _sent(folder, run)
        due_unix = run.changed_unix + due_after_s(sent, wishes) if nags else clock.time() + _SLICE_S
        if clock.time() < due_unix:
            slice_s = _SENDING_SLICE_S if watcher.outbox.flight else _SLICE_S
            clock.sleep(min(slice_s, max(0.01, due_unix - clock.time())))
            continue
        watcher.say(item(events, run, wishes, clock.time(), sent))
        sent += 1
        while run.changed_unix + due_after_s(sent, wishes) <= clock.time():
            sent += 1  # this box slept through some: one notice covers them all
        write_json(folder.nagged, {"sent": sent, "seq": run.seq, "last_unix": clock.time()})


def enough(folder: RunFolder, run: RunState, wishes: Dict[str, Any], now: float) -> bool:
    """Return whether this ending needs no more reminders: the results are home, and holding the box costs nothing.

    Where the box bills, or may bill, reminders continue for another day.
    """
    told = read_json(folder.pulled) or {}
    if told.get("seq") != run.seq:
        return False
    free = wishes.get("free") or (wishes.get("box") == "local" and not wishes.get("price"))
    return bool(free) or now - float(told.get("at_unix") or 0.0) > _METER_S


def due_after_s(sent: int, wishes: Dict[str, Any]) -> float:
    """Return when notice number `sent` is due, counted from the end of the run: 15 min, 1 h, then every 4 h."""
    after: List[float] = [float(item) for item in wishes.get("after_s") or _AFTER_S]
    every = float(wishes.get("every_s") or _EVERY_S)
    if sent < len(after):
        return after[sent]
    return after[-1] + every * (sent - len(after) + 1)


def item(events: List[Dict[str, Any]], run: RunState, wishes: Dict[str, Any], now: float, sent: int) -> Dict[str, Any]:
    """Build the notice: what ended, how long ago, what it costs, what to do."""
    idle_s = max(0.0, now - run.changed_unix)
    return {
        "key": "nag",
        "k": "nag",
        "topic": "meter",
        "title": "%s %s" % (wishes["run"], run.state),
        "text": final_words(events, run, wishes, idle_s),
        "event": "run_%s" % run.state,
        "state": run.state,
        "idle_s": int(idle_s / 60) * 60,
        "n": run.seq,
        "last": "%d.%d" % (run.seq, sent + 1),
        "count": 1,
        "at": now,
        "priority": DEFAULT if run.state == "finished" else HIGH,
        "rush": True,
    }


def _sent(folder: RunFolder, run: RunState) -> int:
    """Return how many notices of this very ending went out; a run that was resumed and ended again starts from 0."""
    noted = read_json(folder.nagged) or {}
    return int(noted.get("sent", 0)) if noted.get("seq") == run.seq else 0


def begin(folder: RunFolder) -> None:
    """Become the reminder process, if the user named a channel; the caretaker's last act."""
    if read_json(folder.notify):
        argv = own_argv("nag", folder.path)
        os.execv(argv[0], argv)
