"""Turn new journal events into notices: batched, rare, sent by short-lived children, repeated later if undelivered."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from leasehold.caretaker.process.child import fork_child, use_streams
from leasehold.caretaker.process.locks import try_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.processes import is_alive, look
from leasehold.kit.run.run_state import fold
from leasehold.kit.run.run_states import TERMINAL
from leasehold.kit.startup.typing_stub import unhinted
from leasehold.kit.tables.topics import HIGH, wanted
from leasehold.kit.text.units import utc_clock

from .outbox import Item, Outbox

_PIPE_BYTES = 60000  # what a pipe takes without a reader
_CHILD_LIMIT_S = 300.0
_LATE_S = 600.0
_SHOWN_ITEMS = 12
_RUSH = ("preempt_noticed", "budget_reached", "disk_short", *("run_" + state for state in TERMINAL))
_PART_OF_THE_END = ("nag", "cell_failed", "failure_classed", "remedy_chosen")


def no_note(kind: str, **data: Any) -> None:
    """Stand in for the journal of a run that has ended."""


class Watcher:
    """Reads the journal once per turn; its memory is the outbox file."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Mapping[str, Any],
        note: Callable[..., None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.note = note
        self.clock = clock
        self.tells: Callable[[str], bool] = lambda kind: True  # which event kinds are sent from here
        self.outbox = Outbox(folder.notices)
        self._size = -1  # of the journal when we last read it
        self._offset = 0
        self._exits: Dict[int, int] = {}

    def step(self, before_exec: Callable[[], None] = lambda: None) -> None:
        """Read new events, collect the outcome of the last notice, send the next. Never raises OSError."""
        with contextlib.suppress(OSError):  # a full disk or a lost file must not end the watch over a trainer
            size = os.stat(self.folder.journal).st_size
            if (size == self._size and self.quiet) or not os.path.exists(self.folder.notify):
                return
            lock = _lock(self.folder.notices_lock)
            if lock is None:
                return  # the reminder process of the run's last end is about to leave
            try:
                self._turn(before_exec)
                self._size = size
            finally:
                if lock >= 0:
                    os.close(lock)

    def say(self, item: Item) -> None:
        """Queue a notice that is no journal event."""
        lock = _lock(self.folder.notices_lock)
        with contextlib.suppress(OSError):
            self.outbox.load()
            self.outbox.add(dict(item, to=list(self._channels())))
            self.outbox.save()
        if lock is not None and lock >= 0:
            os.close(lock)

    def reaped(self, pid: int, status: int) -> None:
        """Record how a child of ours ended: on a full disk its exit code is all it can report."""
        if pid == (self.outbox.flight or {}).get("pid"):
            self._exits = {pid: status}

    @property
    def quiet(self) -> bool:
        """Return whether nothing waits and nothing is being sent."""
        return not self.outbox.waiting and not self.outbox.flight

    def _turn(self, before_exec: Callable[[], None]) -> None:
        self.outbox.load()
        wishes = dict(read_json(self.folder.notify) or {}, run=self.folder.run, label=self.folder.label)
        self._collect(wishes)
        self._land()
        tells = self.outbox.due(self.clock(), list(self._channels(wishes)))
        if tells:
            self._send(tells, wishes, before_exec)

    # ------------------------------------------------------------ reading events

    def _collect(self, wishes: Mapping[str, Any]) -> None:
        events, self._offset = journal.read_from(self.folder.journal, self._offset)
        if not events or events[-1]["n"] == self.outbox.seq:
            return
        seq = _first(events) if self.outbox.seq is None else self.outbox.seq
        chosen = wanted(dict(wishes))
        for event in events:
            if event["n"] > seq:
                self._take(event, chosen, wishes)
        self.outbox.value["seq"] = events[-1]["n"]
        with contextlib.suppress(OSError):  # a full disk is itself worth a notice: continue in memory, without the file
            self.outbox.save()

    def _take(self, event: Mapping[str, Any], chosen: Tuple[str, ...], wishes: Mapping[str, Any]) -> None:
        with unhinted():  # here, since a run without channels needs no sentences
            from leasehold.kit.events import ending, table

        sentence = table.notified(event)
        kind = str(event["k"])
        if sentence is None or sentence.topic not in chosen or not self.tells(kind):
            return
        text = table.notice_text(event)
        if _end_of(kind):
            before = [one for one in journal.read_from(self.folder.journal, 0)[0] if one["n"] <= event["n"]]
            text = ending.final_words(before, fold(before), wishes)
        at = event.get("t")
        self.outbox.add(
            {
                "key": "%s:%s" % (kind, str(event.get(sentence.subject, ""))[:80]),
                "k": kind,
                "topic": sentence.topic,
                "n": event["n"],
                "last": event["n"],
                "count": 1,
                "at": at if isinstance(at, (int, float)) else self.clock(),
                "priority": sentence.priority,
                "text": text,
                "rush": kind in _RUSH,
                "to": list(self._channels(wishes)),
            }
        )

    def _channels(self, wishes: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        return named(wishes if wishes is not None else read_json(self.folder.notify) or {})

    # ------------------------------------------------------------ sending

    def _send(self, tells: Dict[str, List[Item]], wishes: Mapping[str, Any], before_exec: Callable[[], None]) -> None:
        now = self.clock()
        messages: Dict[str, Any] = {}
        for name, items in tells.items():
            messages[name] = self._message(name, items, wishes, now)
            if len(_packed(messages, now)) > _PIPE_BYTES and len(messages) > 1:
                del messages[name]  # in the next flight
                break
        keys = {name: [[item["key"], item["last"]] for item in tells[name]] for name in messages}
        reader, writer = os.pipe()
        try:
            os.write(writer, _packed(messages, now))
            self.outbox.depart({"tells": keys, "began_unix": now}, now)
            with contextlib.suppress(OSError):
                self.outbox.save()
            argv = own_argv("tell", self.folder.address)
            pid = fork_child(before_exec, lambda: _become_sender(reader, argv))
        finally:
            os.close(reader)
            os.close(writer)
        process = look(pid)
        self.outbox.value["flight"].update(pid=pid, started=process.started if process else "")
        with contextlib.suppress(OSError):
            self.outbox.save()

    def _message(self, channel: str, items: List[Item], wishes: Mapping[str, Any], now: float) -> Dict[str, Any]:
        top = max(items, key=_weight)
        ends = _end_of(top["k"])
        shown = [item for item in items if not (ends and item["k"] in _PART_OF_THE_END)]
        shown.sort(key=lambda item: (item is not top, item["at"], item["last"]))
        lines = [_line(item) for item in shown[:_SHOWN_ITEMS]]
        lines += ["and %d more" % (len(shown) - _SHOWN_ITEMS)] if len(shown) > _SHOWN_ITEMS else []
        lines += self._asides(channel, items, now)
        if not ends and top["k"] != "nag":
            lines.append("Look: lease watch %s" % self.folder.run)
        head = "%s %s" % (self.folder.label, ends) if ends else "%s: %s" % (self.folder.label, top["topic"])
        return {
            "id": "%s-%s" % (self.folder.label, top["last"]),
            "title": "%s #%s" % (top.get("title") or head, top["last"]),
            "text": "\n".join(lines),
            "event": top.get("event") or top["k"],
            "run": self.folder.run,
            "state": ends or top.get("state") or "running",
            "box": wishes.get("box", ""),
            "priority": HIGH if any(item["priority"] == HIGH for item in items) else top["priority"],
            "events": [
                {key: item[key] for key in ("k", "n", "last", "count", "text")} for item in shown[:_SHOWN_ITEMS]
            ],
            **{key: top[key] for key in ("idle_s",) if key in top},
        }

    def _asides(self, channel: str, items: List[Item], now: float) -> List[str]:
        """Return remarks about the delivery itself: that it is late, or that many events came in one notice."""
        asides = []
        events = sum(item["count"] for item in items) + int(self.outbox.value.get("dropped") or 0)
        oldest = min(item["at"] for item in items)
        if self.outbox.value.get("limited") and events > 1:
            asides.append("(%d events since %s in one notice: notices are limited)" % (events, utc_clock(oldest)))
        failing = self.outbox.failing_since(channel)
        if failing and now - oldest > _LATE_S:
            asides.append("(late: this channel has failed since %s)" % utc_clock(failing))
        return asides

    # ------------------------------------------------------------ outcome

    def _land(self) -> None:
        flight = self.outbox.flight
        if not flight or self._flying(flight):
            return
        done: Dict[str, Any] = {}
        with contextlib.suppress(OSError):
            done = read_json(self.folder.notices_done) or {}
        heard = done.get("results") if done.get("began_unix") == flight["began_unix"] else None
        if not isinstance(heard, dict):
            went = self._exits.get(flight.get("pid", 0)) == 0
            heard = dict.fromkeys(flight["tells"], "" if went else "the sender ended without a result")
        for name in flight["tells"]:
            result = heard.get(name, "not tried")
            problem, wait_s = (result, 0.0) if isinstance(result, str) else (str(result[0]), float(result[1]))
            self._tell_change(name, self.outbox.land(name, problem, wait_s, self.clock()))
        self.outbox.landed()
        with contextlib.suppress(OSError):
            self.outbox.save()

    def _flying(self, flight: Mapping[str, Any]) -> bool:
        pid, started = int(flight.get("pid") or 0), str(flight.get("started", ""))
        if not pid:
            return False  # we died between recording it and doing it
        alive = is_alive(pid, started)  # first: a process that is dead by now can be reaped, and its exit code read
        with contextlib.suppress(ChildProcessError):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.reaped(pid, status)
                return False
        if not alive:
            return False
        if self.clock() - flight["began_unix"] > _CHILD_LIMIT_S:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        return True

    def _tell_change(self, channel: str, change: Mapping[str, Any]) -> None:
        """Journal the first failure of a streak and its end; if that fails too, skip it."""
        with contextlib.suppress(OSError):
            if "failed" in change:
                self.note("notice_failed", channel=channel, why=change["failed"])
            elif "back_after_s" in change:
                self.note("notice_back", channel=channel, after_s=change["back_after_s"])


def named(wishes: Mapping[str, Any]) -> Dict[str, Dict[str, Any]]:
    """List the channels by name; those of older homes are named by kind and position."""
    found: Dict[str, Dict[str, Any]] = {}
    for number, channel in enumerate(wishes.get("channels") or [], 1):
        found[str(channel.get("name") or "%s-%d" % (channel.get("kind"), number))] = channel
    return found


def _first(events: List[Dict[str, Any]]) -> int:
    """Without a memory, begin where this life of the run began: older events are no news."""
    births = [event["n"] for event in events if event.get("k") in ("run_opened", "resumed")]
    return births[-1] - 1 if births else 0


def _become_sender(stdin: int, argv: List[str]) -> None:
    use_streams(stdin)
    os.execv(argv[0], argv)


def _packed(messages: Mapping[str, Any], began_unix: float) -> bytes:
    return json.dumps({"tells": messages, "began_unix": began_unix}).encode("utf-8")


def _weight(item: Item) -> Any:
    return (bool(_end_of(item["k"])), item["rush"], item["priority"] == HIGH, item["at"], item["last"])


def _end_of(kind: str) -> str:
    """Return the state in which an event of this kind leaves the run for good; empty for all others."""
    return kind[4:] if kind.startswith("run_") and kind[4:] in TERMINAL else ""


def _lock(path: str) -> Optional[int]:
    try:
        return try_lock(path)
    except OSError:  # no inode left for a lock: the notice matters more than the order
        return -1


def _line(item: Item) -> str:
    often = " (%d times)" % item["count"] if item["count"] > 1 and item["k"] != "nag" else ""
    return str(item["text"]) + often
