"""The life of a run: its caretaker, its attempts, stops, its budget and its notices."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.kit.run.continued import STARTED_AGAIN, say_began
from leasehold.kit.tables.topics import HIGH, LOW
from leasehold.kit.text.units import ago

from .sentence import Event, Sentence, listed, whose


def _ended(event: Event) -> str:
    attempt = event.get("attempt")
    if event.get("unseen"):
        return "attempt %s ended; its exit code is unknown, so its results decide" % attempt
    return whose(event) + how_ended(attempt, event.get("code"), event.get("signal"), event.get("lost"))


def how_ended(attempt: Any, code: Any, signal: Any, lost: Any) -> str:
    """Describe how an attempt ended."""
    if lost:
        return "attempt %s vanished without an exit record" % attempt
    if signal is not None:
        return "attempt %s was ended by signal %s" % (attempt, signal)
    return "attempt %s exited with code %s" % (attempt, code)


def _attempt(words: str, *keys: str) -> Any:
    return lambda event: "%sattempt %s %s" % (whose(event), event.get("attempt"), words % tuple(map(event.get, keys)))


def budget_used(percent: Any, spent: Any, limit: Any, currency: Any) -> str:
    """Report how much of a run's budget is used."""
    return "%s %% of the budget is used: %s of %s %s" % (percent, spent, limit, currency)


def _budget_warned(event: Event) -> str:
    return budget_used(*(event.get(key) for key in ("percent", "spent", "limit", "currency")))


def _budget_reached(event: Event) -> str:
    stops = event.get("at_limit") == "stop"
    acts = "stopping the run, as its job says" if stops else "the run continues, as its job says"
    return "the budget is used up: %s of %s %s; %s" % (*map(event.get, ("spent", "limit", "currency")), acts)


def _budget_notice(event: Event) -> str:
    stops = event.get("at_limit") == "stop"
    return _budget_reached(event) + ("; the box still bills" if stops else "")


def woken(what: Any, pid: Any) -> str:
    """Report that one of our suspended processes was continued."""
    return "its %s (pid %s) was suspended; it was continued" % (what, pid)


def _channel_failed(event: Event) -> str:
    return "notice channel %s failed: %s; the box keeps trying" % (event.get("channel"), event.get("why"))


def _channel_works(event: Event) -> str:
    after_s = event.get("after_s")
    late = " after %s" % ago(float(after_s)) if isinstance(after_s, (int, float)) else ""
    return "notice channel %s works again%s" % (event.get("channel"), late)


def occupied(why: Any) -> str:
    """Explain that a cell waits because processes that are not its own write in its folders."""
    return "waiting: another process writes in its folders: %s" % why


def _resumed_from(event: Event) -> str:
    step = event.get("step")
    at = "at step %s" % step if isinstance(step, int) else "from its newest state; its step is unknown"
    return "%sattempt %s continues the work of %s %s (state %s, sha256 %s, from %s)" % (
        whose(event), event.get("attempt"), event.get("box") or "another box", at, event.get("state"),
        str(event.get("sha256"))[:12], event.get("place"),
    )  # fmt: skip


SENTENCES: Dict[str, Sentence] = {
    "run_opened": Sentence(
        lambda event: "caretaker started, pid %s" % event.get("pid"), "started", LOW, lambda event: "The run started."
    ),
    "caretaker_started": Sentence(
        lambda event: "caretaker restarted, pid %s: the one before it had died" % event.get("pid")
    ),
    "resumed": Sentence(lambda event: STARTED_AGAIN, "started", LOW, lambda event: "The run was %s." % STARTED_AGAIN),
    "run_finished": Sentence(lambda event: "run finished", "ended"),
    "run_stopped": Sentence(
        lambda event: "run stopped", "ended", notice=lambda event: "Run stopped: %s" % event.get("reason")
    ),
    "run_failed": Sentence(
        lambda event: "run failed", "failed", HIGH, lambda event: "Run failed: %s" % event.get("reason")
    ),
    "attempt_starting": Sentence(_attempt("starting")),
    "attempt_started": Sentence(_attempt("runs as pid %s", "pid")),
    "attempt_ended": Sentence(_ended),
    "attempt_began": Sentence(
        lambda event: whose(event) + say_began(event),
        "alarm",
        notice=lambda event: "Cell %s: %s" % (event.get("cell"), say_began(event)),
    ),
    "resumed_from": Sentence(_resumed_from, "started"),
    "cell_pending": Sentence(lambda event: str(event.get("why"))),
    "cell_finished": Sentence(lambda event: "cell %s finished" % event.get("cell")),
    "cell_failed": Sentence(lambda event: "cell %s failed: %s" % (event.get("cell"), event.get("why")), "failed", HIGH),
    "strays_ended": Sentence(
        lambda event: "ended %s left by an earlier attempt" % _processes(len(listed(event, "pids")))
    ),
    "occupied": Sentence(lambda event: whose(event) + occupied(event.get("why")), "stalled", HIGH),
    "occupied_over": Sentence(
        lambda event: "%sno other process writes in its folders any more; continuing" % whose(event), "stalled"
    ),
    "lock_retaken": Sentence(
        lambda event: "lock file %s was deleted while it was held; it was created and locked again" % event.get("path")
    ),
    "keeper_continued": Sentence(lambda event: whose(event) + woken("keeper", event.get("pid"))),
    "stop_requested": Sentence(lambda event: "stop requested; grace period %s s" % event.get("grace_s")),
    "budget_warned": Sentence(_budget_warned, "budget", subject="budget"),
    "budget_reached": Sentence(_budget_reached, "budget", HIGH, _budget_notice, "budget"),
    "notice_failed": Sentence(_channel_failed),
    "notice_back": Sentence(_channel_works),
}


def _processes(number: int) -> str:
    return "1 process" if number == 1 else "%d processes" % number
