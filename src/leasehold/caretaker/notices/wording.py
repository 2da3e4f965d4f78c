"""What a journal event says to a person: one table from its kind to topic, urgency and words."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

from leasehold.kit.run.continued import STARTED_AGAIN, is_setback, say_began
from leasehold.kit.run.run_state import FINISHED, RunState

LOW, DEFAULT, HIGH = "low", "default", "high"
_WORD_CHARS = 600

Event = Mapping[str, Any]


class Telling(NamedTuple):
    """How one kind of event is told; `subject` names the field that tells two of a kind apart."""

    topic: str
    priority: str
    words: Callable[[Event], str]
    subject: str = "cell"


def tell(event: Event) -> Optional[Telling]:
    """Find how an event is told; None for those that nobody is woken for."""
    telling = TELLINGS.get(str(event.get("k")))
    if event.get("k") == "attempt_began" and (event.get("alarm") or not is_setback(event)):
        return None  # it continued, as it should; or an alarm of its own says it
    if telling is None or (event.get("k") == "alarm_raised" and event.get("level") != "warn"):
        return telling and telling._replace(priority=HIGH)
    return telling


def final_words(events: Iterable[Event], run: RunState, wishes: Event, idle_s: float = 0.0) -> str:
    """Say how a run ended, why, what was made of it, what an hour costs and what to type next."""
    name = str(wishes.get("run", ""))
    ended = "%s %s ago" % (run.state, _ago(idle_s)) if idle_s >= 60 else "just %s" % run.state
    reason = " (%s)" % _short(run.reason) if run.reason else ""
    said = ["%s %s%s." % (wishes.get("label") or name, ended, reason)]
    said += [line for line in _verdict(events, run.reason) if run.state != FINISHED]
    said += ["%s." % line for line in _setbacks(run)]
    price = wishes.get("price")
    if not wishes.get("free"):
        said.append("The box still bills %s." % price if price else "The box may still bill.")
    todo = "lease logs %s; the same lease run resumes it" % name
    if run.state == FINISHED:
        todo = "lease pull %s" % name + ("" if wishes.get("free") else ", then lease down %s" % name)
    return " ".join(said + ["Next: " + todo])


def _setbacks(run: RunState) -> List[str]:
    """Say which attempts began again although more had been reached; of many cells, how many did."""
    found = [say_began(one) for cell in run.cells.values() for one in cell.began if is_setback(one)]
    return [_capital(found[-1])] + ["so did %d others" % (len(found) - 1)] * (len(found) > 1) if found else []


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _verdict(events: Iterable[Event], reason: str) -> List[str]:
    """Repeat the last class and remedy since a person last resumed the run; what the reason says is not said twice."""
    classed: Optional[Event] = None
    remedy: Optional[Event] = None
    for event in events:
        kind = event.get("k")
        if kind in ("resumed", "attempt_started"):
            classed = remedy = None
        elif kind == "failure_classed":
            classed = event
        elif kind == "remedy_chosen":
            remedy = event
    if classed and str(classed.get("why") or "-") in reason:
        classed = dict(classed, why="", evidence=[])
    return [_classed(classed) + "."] * bool(classed) + [_remedy(remedy) + "."] * bool(remedy)


def _classed(event: Optional[Event]) -> str:
    event = event or {}
    evidence = event.get("evidence")
    seen = "; ".join(str(item) for item in evidence[:3]) if isinstance(evidence, list) else ""
    why = str(event.get("why") or "")
    return "Class %s%s" % (event.get("class"), _after(": ", why or seen))


def _remedy(event: Optional[Event]) -> str:
    event = event or {}
    wait_s = event.get("wait_s")
    wait = " in %s" % _ago(float(wait_s)) if isinstance(wait_s, (int, float)) and wait_s >= 1 else ""
    what = _REMEDIES.get(str(event.get("remedy")), str(event.get("remedy")))
    return "Remedy: %s%s%s" % (what, wait, _after(": ", str(event.get("why") or "")))


_REMEDIES = {
    "again": "the same command again",
    "resume": "the same command again",
    "prune_then_again": "prune scratch, then the same command again",
    "stop": "none; it stays stopped",
    "rent_again": "another box is needed",
    "ask": "a person must decide",
}


def _alarm(event: Event) -> str:
    seen, hint = _after(": ", str(event.get("seen") or "")), _after(". Do: ", str(event.get("hint") or ""))
    return "%s%s%s" % (event.get("what") or event.get("name"), seen, hint)


def _nan_stop(event: Event) -> str:
    return "Cell %s was stopped, as its job says: its loss is not finite: %s" % (event.get("cell"), event.get("seen"))


def _budget(event: Event) -> str:
    used = "%s of %s %s" % (event.get("spent"), event.get("limit"), event.get("currency"))
    if event.get("k") == "budget_warned":
        return "%s %% of its budget is used: %s." % (event.get("percent"), used)
    stops = event.get("at_limit") == "stop"
    acts = "It is being stopped, as its job says; the box still bills." if stops else "It goes on: its job says warn."
    return "Its budget is used up: %s. %s" % (used, acts)


def _disk_short(event: Event) -> str:
    said = "%s has %s %s free and %s are needed" % tuple(event.get(key) for key in ("path", "free", "what", "need"))
    return "Not started: %s%s" % (said, _after(". Do: ", str(event.get("hint") or "")))


def _pruned(event: Event) -> str:
    return "Pruned scratch: %s files, %s bytes freed." % (event.get("files"), event.get("freed_bytes"))


def _early(event: Event) -> str:
    return "It ended after %s; %s were expected. Look at it before you believe it." % (
        _ago(float(event.get("took_s") or 0)),
        _ago(float(event.get("expected_s") or 0)),
    )


def _stalled(event: Event) -> str:
    since = event.get("since_unix")
    when = " since %s" % time.strftime("%H:%M UTC", time.gmtime(since)) if isinstance(since, (int, float)) else ""
    return "Nothing moves%s%s" % (when, _after(": ", _evidence(event)))


def _evidence(event: Event) -> str:
    found = event.get("evidence")
    return "; ".join(str(item) for item in found[:4]) if isinstance(found, list) else str(found or "")


TELLINGS: Dict[str, Telling] = {
    "run_opened": Telling("started", LOW, lambda event: "It was started."),
    "resumed": Telling("started", LOW, lambda event: "It was %s." % STARTED_AGAIN),
    "run_finished": Telling("ended", DEFAULT, lambda event: "It finished."),
    "run_stopped": Telling("ended", DEFAULT, lambda event: "It was stopped: %s" % event.get("reason")),
    "run_failed": Telling("failed", HIGH, lambda event: "It failed: %s" % event.get("reason")),
    "cell_failed": Telling("failed", HIGH, lambda event: "Cell %s failed: %s" % (event.get("cell"), event.get("why"))),
    "disk_short": Telling("failed", HIGH, _disk_short, "path"),
    "durable_failed": Telling("failed", HIGH, lambda event: "The durable copy failed: %s" % event.get("why")),
    "failure_classed": Telling("remedy", DEFAULT, _classed),
    "remedy_chosen": Telling("remedy", DEFAULT, _remedy),
    "scratch_pruned": Telling("remedy", DEFAULT, _pruned),
    "stalled": Telling("stalled", HIGH, _stalled),
    "occupied": Telling("stalled", HIGH, lambda event: "It waits, for somebody writes there: %s" % event.get("why")),
    "occupied_over": Telling("stalled", DEFAULT, lambda event: "Nobody else writes there any more; it goes on."),
    "stall_over": Telling("stalled", DEFAULT, lambda event: "It moves again."),
    "attempt_began": Telling("alarm", DEFAULT, lambda event: "Cell %s: %s" % (event.get("cell"), say_began(event))),
    "nan_stop": Telling("alarm", HIGH, _nan_stop),
    "fast_finished": Telling("stalled", HIGH, _early),
    "alarm_raised": Telling("alarm", DEFAULT, _alarm, "name"),
    "alarm_cleared": Telling("alarm", LOW, lambda event: "Over: %s" % (event.get("what") or event.get("name")), "name"),
    "preempt_noticed": Telling(
        "preempt",
        HIGH,
        lambda event: "The box is taken away in %s s, says %s." % (event.get("grace_s"), event.get("by")),
    ),
    "budget_warned": Telling("budget", DEFAULT, _budget, "budget"),
    "budget_reached": Telling("budget", HIGH, _budget, "budget"),
}


def spell(telling: Telling, event: Event) -> str:
    """Say an event in one short line."""
    return _short(telling.words(event))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORD_CHARS else line[: _WORD_CHARS - 2] + " …"


def _after(mark: str, text: str) -> str:
    return mark + text if text else ""


def _ago(seconds: float) -> str:
    if seconds < 60:
        return "%d s" % seconds
    return "%d min" % (seconds // 60) if seconds < 7200 else "%.1f h" % (seconds / 3600)
