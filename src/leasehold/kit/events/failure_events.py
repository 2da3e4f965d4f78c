"""Failures and their remedies, stalls, alarms, preemption, and what an attempt left."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from leasehold.kit.tables.topics import HIGH, LOW
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import ago, count, say_bytes, utc_clock

from .sentence import MAIN, Event, Sentence, after, listed, number, some, whose

_REMEDIES = {
    "again": "run the same command again",
    "resume": "run the same command again",
    "prune_then_again": "prune scratch files, then run the same command again",
    "stop": "none; it stays stopped",
    "rent_again": "use another box",
    "ask": "none; a person must decide",
}
_ENDS = ("stop", "rent_again", "ask")
_SHOWN = 4
_SAME = "the identical command again"  # the reason of a plain retry, which adds nothing


def say_cell(cell: Mapping[str, Any], attempt: int) -> str:
    """Return one line from a cell's state: why an attempt failed and what was done; empty if that is not known."""
    if not attempt or cell.get("classed") != attempt:
        return ""
    remedy = _REMEDIES.get(str(cell.get("remedy")), "") if cell.get("remedied") == attempt else ""
    why = "%s (%s): %s" % (_class(cell.get("klass")), cell.get("verdict"), cell.get("because"))
    return one_line("attempt %d failed: %s%s" % (attempt, why, after("; remedy: ", remedy)))


def _class(name: Any) -> str:
    return str(name or "unknown").replace("_", "-")


def _seen(event: Event) -> List[str]:
    return ["  seen: %s" % line for line in listed(event, "evidence")[:_SHOWN]]


def _classed(event: Event) -> str:
    line = "why it failed: %s (%s): %s" % (_class(event.get("class")), event.get("verdict"), event.get("why"))
    return "\n".join([line, *_seen(event)])


def classed_notice(event: Event) -> str:
    """Explain in one line why an attempt failed."""
    seen = "; ".join(str(item) for item in listed(event, "evidence")[:3])
    return "Why it failed: %s%s" % (_class(event.get("class")), after(": ", event.get("why") or seen))


def _remedy(event: Event) -> str:
    shown = event.get("remedy") in _ENDS or event.get("fresh")
    wait_s = number(event, "wait_s")
    wait = " in %g s" % wait_s if wait_s else ""
    return "remedy: %s%s%s" % (_does(event), wait, after(": ", event.get("why")) if shown else "")


def remedy_notice(event: Event) -> str:
    """Describe the remedy for a failure: what, when and why."""
    wait_s = number(event, "wait_s")
    wait = " in %s" % ago(wait_s) if wait_s >= 1 else ""
    why = event.get("why")
    return "Remedy: %s%s%s" % (_does(event), wait, after(": ", "" if why == _SAME else why))


def _does(event: Event) -> str:
    return _REMEDIES.get(str(event.get("remedy")), str(event.get("remedy")))


def _pruned(event: Event) -> str:
    if event.get("problem"):
        return "scratch files could not be pruned: %s" % event["problem"]
    kept = listed(event, "kept")
    stays = "; kept %s" % some(kept, _SHOWN) if kept else ""
    files, size = count(number(event, "files"), "scratch file"), say_bytes(number(event, "freed_bytes"))
    return "pruned %s, %s%s" % (files, size, stays)


def shortage(event: Event) -> str:
    """Describe what a disk lacks for an attempt, and how to fix it."""
    free, need = number(event, "free"), number(event, "need")
    had = "%s free, %s needed" % (say_bytes(free), say_bytes(need))
    if event.get("what") == "inodes":
        had = "%d inodes left, %d needed" % (free, need)
    return "%s has %s%s" % (event.get("path"), had, after("; ", event.get("hint")))


def _disk_short(event: Event) -> str:
    return "no room for attempt %s: %s" % (event.get("attempt"), shortage(event))


def _stalled(event: Event) -> str:
    line = "STALLED: attempt %s is alive but makes no progress" % event.get("attempt")
    return "\n".join([line, *_seen(event)])


def _stalled_notice(event: Event) -> str:
    since = event.get("since_unix")
    when = " since %s" % utc_clock(since) if isinstance(since, (int, float)) else ""
    return "No progress%s%s" % (when, after(": ", "; ".join(str(one) for one in listed(event, "evidence")[:_SHOWN])))


def _nan_stop(event: Event) -> str:
    cell = "" if event.get("cell") == MAIN else "cell %s, " % event.get("cell")
    line = "STOPPED: %sattempt %s: its loss is not finite (on_nan: stop)" % (cell, event.get("attempt"))
    return "\n".join([line, "  seen: %s" % event.get("seen"), "  its checkpoints were not touched"])


def _nan_notice(event: Event) -> str:
    return "Cell %s was stopped (on_nan: stop): its loss is not finite: %s" % (event.get("cell"), event.get("seen"))


def finished_fast(cell: Any, took_s: float, expected_s: float) -> str:
    """Report a cell that succeeded much sooner than expected."""
    said = "cell %s finished fast, after %s of the expected %s: check its results before you trust them"
    return said % (cell, ago(took_s), ago(expected_s))


def _fast(event: Event) -> str:
    return "WARNING: %s" % finished_fast(event.get("cell"), number(event, "took_s"), number(event, "expected_s"))


def _preempted(event: Event) -> str:
    grace_s = number(event, "grace_s")
    left = "about %g s left" % grace_s if grace_s else "the time left is unknown"
    return "%sthe box is being taken away (%s): %s; saving" % (whose(event), event.get("by"), left)


def _sealed(event: Event) -> str:
    older = listed(event, "from_before")
    note = "; %d of them from an earlier attempt" % len(older) if older else ""
    what = "%s, %s" % (count(number(event, "files"), "artifact"), say_bytes(number(event, "bytes")))
    return "cell %s sealed: %s, hashed%s" % (event.get("cell"), what, note)


def _passed(event: Event) -> str:
    return "evaluation finished" if event.get("stage") == "evaluate" else "training finished"


def _raised(event: Event) -> str:
    word = "ALARM" if event.get("level") == "alarm" else "warning"
    lines = ["  %s: %s" % (key, event[key]) for key in ("seen", "hint") if event.get(key)]
    return "\n".join(["%s: %s" % (word, event.get("what")), *lines])


def _raised_notice(event: Event) -> str:
    seen, hint = after(": ", event.get("seen")), after(". Do: ", event.get("hint"))
    return "%s%s%s" % (event.get("what") or event.get("name"), seen, hint)


def _cleared(event: Event) -> str:
    what = str(event.get("name")).replace("_", " ") + after(" ", event.get("where"))
    return "alarm over: %s (%s)" % (what, event.get("seen"))


def _cleared_notice(event: Event) -> str:
    return "Alarm over: %s" % (event.get("what") or event.get("name"))


SENTENCES: Dict[str, Sentence] = {
    "failure_classed": Sentence(_classed, "remedy", notice=classed_notice),
    "remedy_chosen": Sentence(_remedy, "remedy", notice=remedy_notice),
    "scratch_pruned": Sentence(_pruned, "remedy"),
    "disk_short": Sentence(_disk_short, "failed", HIGH, subject="path"),
    "stalled": Sentence(_stalled, "stalled", HIGH, _stalled_notice),
    "stall_over": Sentence(lambda event: "no longer stalled: it makes progress again", "stalled"),
    "nan_stop": Sentence(_nan_stop, "alarm", HIGH, _nan_notice),
    "fast_finished": Sentence(_fast, "stalled", HIGH),
    "preempt_noticed": Sentence(_preempted, "preempt", HIGH),
    "cell_sealed": Sentence(_sealed),
    "stage_passed": Sentence(_passed),
    "alarm_raised": Sentence(_raised, "alarm", notice=_raised_notice, subject="name"),
    "alarm_cleared": Sentence(_cleared, "alarm", LOW, _cleared_notice, "name"),
}
