"""Raise and clear alarms from readings: thresholds as data, with a band between raising and clearing.

An alarm is identified by its name and where it holds. It is raised once; again only after it was cleared, or when a
warning has become an alarm.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.caretaker.gpu.driver_codes import explain
from leasehold.kit.failure.remedies import leaving
from leasehold.kit.text.units import ago

WARN, ALARM = "warn", "alarm"
_GIB = float(1 << 30)
_SLOWED = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake")  # idle clocks say nothing

Key = Tuple[str, str]  # name, where


class Band(NamedTuple):
    """Raised at `hot` and beyond, cleared at `cold` and below; between them nothing changes."""

    hot: float
    cold: float


class Limits(NamedTuple):
    """Every threshold in one place."""

    disk_percent: Band = Band(95.0, 93.0)  # of bytes and of inodes
    disk_full_in_s: Band = Band(3600.0, 7200.0)  # here less is worse
    memory_percent: Band = Band(90.0, 85.0)  # beyond it the kernel may kill the trainer
    memory_full_in_s: Band = Band(900.0, 1800.0)
    memory_forecast_percent: float = 50.0  # below it, growth is a program that is still loading
    card_hot_c: Band = Band(83.0, 78.0)  # as `lease box gpu` judges too (gates/care/gpu_health.py)
    card_clock_share: float = 0.70  # SM clock below 70 % of its maximum while hot
    card_loaded_percent: float = 60.0  # the clock rule holds only under load
    card_idle_s: float = 600.0  # at 0 % for so long


LIMITS = Limits()
_PATIENCE = {"gpu_throttle": 2, "gpu_shared": 2, "gpu_hot": 2, "memory": 2}  # readings in a row before it is raised
_CALM = {"gpu_throttle": 4, "gpu_shared": 2, "gpu_idle": 2}  # readings in a row before it is cleared


class Sign(NamedTuple):
    """What one reading means for one alarm: hot raises it, cold clears it, neither leaves it as it is."""

    name: str
    where: str
    hot: bool
    cold: bool
    level: str
    what: str
    seen: str
    hint: str

    @property
    def key(self) -> Key:
        """Identity of the alarm."""
        return self.name, self.where


class Alarms:
    """The raised alarms; `known` is the run's journal, so that a new caretaker continues with them."""

    def __init__(self, known: Iterable[Dict[str, Any]]) -> None:
        self.raised: Dict[Key, str] = {}
        for event in known:
            key = (str(event.get("name")), str(event.get("where", "")))
            if event.get("k") == "alarm_raised":
                self.raised[key] = str(event.get("level"))
            elif event.get("k") == "alarm_cleared":
                self.raised.pop(key, None)
        self._streaks: Dict[Tuple[Key, bool], int] = {}

    def judge(self, signs: Iterable[Sign], note: Callable[..., None]) -> None:
        """Raise and clear; what could not be journaled is tried again at the next tick."""
        for sign in signs:
            hot, cold = self._streak(sign.key, True, sign.hot), self._streak(sign.key, False, sign.cold)
            worse = self.raised.get(sign.key) == WARN and sign.level == ALARM  # the forecast has come true
            if (sign.key not in self.raised or worse) and hot >= _PATIENCE.get(sign.name, 1):
                note("alarm_raised", **_facts(sign))
                self.raised[sign.key] = sign.level
            elif sign.key in self.raised and cold >= _CALM.get(sign.name, 1):
                note("alarm_cleared", name=sign.name, where=sign.where, seen=sign.seen)
                self.raised.pop(sign.key)

    @property
    def names(self) -> List[str]:
        """The raised alarms, each with where."""
        return sorted(" ".join(filter(None, key)) for key in self.raised)

    def _streak(self, key: Key, hot: bool, holds: bool) -> int:
        count = self._streaks.get((key, hot), 0) + 1 if holds else 0
        self._streaks[key, hot] = count
        return count


def signs_of(facts: Dict[str, Any], kept: "Recall", limits: Limits = LIMITS) -> Iterator[Sign]:
    """Derive every alarm's sign from a sample."""
    for disk in facts.get("disks") or []:
        for what in ("bytes", "inodes"):
            yield from _disk(disk, what, limits)
    yield from _memory(facts.get("memory") or {}, facts.get("trainer") or {}, limits)
    yield from _killed(facts.get("memory") or {}, kept)
    kept.xids.update(dict.fromkeys(facts.get("xids") or []))
    for index, code in kept.xids:  # repeated until the journal accepts it
        yield _xid(index, code, kept.leaving)
    for name in facts.get("fresh") or ():
        yield _hung(name, name in facts["hung"], kept.leaving)
    if "gpu" not in (facts.get("fresh") or ()):
        return  # the cards' figures are those that were judged last
    for card in facts.get("gpus") or []:
        yield from _card(card, kept, limits)
    yield from _idle(facts, kept, limits)


class Recall:
    """State that judging keeps from tick to tick."""

    def __init__(self, cluster: bool = False) -> None:
        self.leaving = leaving(cluster)
        self.idle_since_s: Optional[float] = None
        self.idle_step: Any = None
        self.first_ecc: Dict[int, int] = {}
        self.first_kills: Optional[int] = None
        self.xids: Dict[Tuple[int, int], None] = {}


def _disk(disk: Dict[str, Any], what: str, limits: Limits) -> Iterator[Sign]:
    total, free = disk.get("total_" + what), disk.get("free_" + what)
    if not total or free is None:
        return
    percent, left_s = 100 * (total - free) / total, disk.get("%s_full_in_s" % what)
    full = percent >= limits.disk_percent.hot
    soon = left_s is not None and left_s < limits.disk_full_in_s.hot
    calm = percent < limits.disk_percent.cold and (left_s is None or left_s > limits.disk_full_in_s.cold)
    free_text = "%.1f GiB" % (free / _GIB) if what == "bytes" else "{:,} inodes".format(free)
    yield Sign(
        "disk_" + what,
        disk["path"],
        full or soon,
        calm,
        ALARM if full else WARN,
        "%s is %s" % (disk["path"], "%.0f %% full" % percent if full else "filling up: full in %s" % _say_s(left_s)),
        "%s: %.1f %% of its %s used, %s free" % (disk["role"], percent, what, free_text),
        "free room on it now, or the trainer's next write fails: prune old checkpoints"
        if what == "bytes"
        else "too many small files: pack them into tar shards, or prune",
    )


def _memory(memory: Dict[str, Any], trainer: Dict[str, Any], limits: Limits) -> Iterator[Sign]:
    used, limit = memory.get("used_bytes"), memory.get("limit_bytes")
    if used is None or not limit:
        return
    percent, left_s = 100 * used / limit, memory.get("full_in_s")
    high = percent > limits.memory_percent.hot
    grown = percent >= limits.memory_forecast_percent
    soon = grown and left_s is not None and left_s < limits.memory_full_in_s.hot
    far = left_s is None or not grown or left_s > limits.memory_full_in_s.cold
    share = "; the trainer's %d processes hold %.1f GiB (RSS)" % (
        trainer.get("processes", 0),
        trainer.get("rss_bytes", 0) / _GIB,
    )
    what = "memory is at %.0f %% of its limit" % percent
    yield Sign(
        "memory",
        "",
        high or soon,
        percent < limits.memory_percent.cold and far,
        ALARM if high else WARN,
        what if high else what + " and will reach it in %s" % _say_s(left_s),
        "%.1f of %.1f GiB (%s)%s" % (used / _GIB, limit / _GIB, memory.get("source"), share if trainer else ""),
        "the kernel kills at the limit: fewer loader workers, or a box with more memory",
    )


def _killed(memory: Dict[str, Any], kept: Recall) -> Iterator[Sign]:
    kills = memory.get("oom_kills")
    if kills is None:
        return
    kept.first_kills = kills if kept.first_kills is None else kept.first_kills
    if kills <= kept.first_kills:
        return
    seen = "oom_kill rose from %d to %d" % (kept.first_kills, kills)
    hint = "if a loader worker died, the trainer may hang or fail soon: fewer workers, or more memory"
    yield Sign("oom_kill", str(kills), True, False, ALARM, "the kernel killed a process for memory", seen, hint)


def _card(card: Dict[str, Any], kept: Recall, limits: Limits) -> Iterator[Sign]:
    where = str(card.get("index"))
    if card.get("lost"):
        hint = "bring home what is complete (lease pull RUN); %s" % kept.leaving
        yield Sign("gpu_lost", where, True, False, ALARM, "card %s is lost" % where, str(card.get("problem")), hint)
        return
    yield from _slowed(card, where, limits)
    yield from _ecc(card, where, kept)
    others = card.get("others")
    if others is not None:
        ours = bool(card.get("ours"))
        listed = ", ".join("%s (pid %d)" % (one.get("name") or "?", one["pid"]) for one in others)
        what = "another process is on card %s" % where
        hint = "is it yours? lease box gpu shows who holds the card; training slows and may run out of its memory"
        yield Sign("gpu_shared", where, ours and bool(others), not others, WARN, what, listed or "nobody else", hint)


def _slowed(card: Dict[str, Any], where: str, limits: Limits) -> Iterator[Sign]:
    slowed = [name for name in card.get("reasons") or () if name in _SLOWED]
    heat, clock, most = card.get("temperature_c"), card.get("sm_mhz"), card.get("sm_mhz_max")
    loaded = (card.get("util_percent") or 0) >= limits.card_loaded_percent
    hot = heat is not None and heat >= limits.card_hot_c.hot
    slow = bool(hot and loaded and clock and most and clock < limits.card_clock_share * most)
    seen = "%s C, %s of %s MHz, %s W; reasons: %s" % (
        *(("?" if one is None else one) for one in (heat, clock, most, card.get("power_w"))),
        ", ".join(slowed) or "none",
    )
    hint = "the box's cooling or power, not your code: compare step times, and rent another box if it stays"
    what = "card %s is throttled" % where
    yield Sign("gpu_throttle", where, bool(slowed) or slow, not slowed and not slow, ALARM, what, seen, hint)
    if heat is not None:
        cool = heat < limits.card_hot_c.cold
        yield Sign("gpu_hot", where, hot, cool, WARN, "card %s is at %d C" % (where, heat), seen, hint)


def _ecc(card: Dict[str, Any], where: str, kept: Recall) -> Iterator[Sign]:
    count = card.get("ecc_uncorrected")
    failed, pending = card.get("rows_failed"), card.get("rows_pending")
    if count is None and failed is None:
        return
    first = kept.first_ecc.setdefault(card["index"], count or 0)
    fresh = (count or 0) > first
    seen = "%s uncorrected since the driver was loaded (%d when we began); rows remapped %s, pending %s, failed %s" % (
        count,
        first,
        card.get("rows_remapped", "?"),
        pending,
        failed,
    )
    what = "card %s %s" % (where, "had an uncorrectable memory error" if fresh else "has had memory errors before")
    level = ALARM if fresh or failed else WARN
    hint = "numbers may be wrong since then: go back to a checkpoint from before; %s" % kept.leaving
    bad = fresh or bool(count) or bool(failed) or bool(pending)
    yield Sign("gpu_ecc", where + (" new" if fresh else ""), bad, False, level, what, seen, hint)


def _hung(name: str, hangs: bool, leaving_words: str) -> Sign:
    kind, _, where = name.partition(" ")
    what = "%s does not answer" % ("the GPU driver" if kind == "gpu" else where)
    seen = "asked, and heard nothing for 30 s" if hangs else "it answers"
    hint = (
        "a lost card looks like this (Xid 79); if no step is done either: %s" % leaving_words
        if kind == "gpu"
        else "a network disk whose server is gone looks like this; the trainer's next write there hangs too"
    )
    return Sign(kind + "_silent", where, hangs, not hangs, ALARM, what, seen, hint)


def _xid(index: int, code: int, leaving_words: str) -> Sign:
    known = explain(code)
    card = "card %d" % index if index >= 0 else "a card"
    hint = leaving_words if known.leave else "look at the trainer's log first"
    what = "%s reported Xid %d: %s" % (card, code, known.meaning)
    level = ALARM if known.leave else WARN
    where = "%s %d" % (index if index >= 0 else "?", code)
    return Sign("gpu_xid", where, True, False, level, what, "Xid %d" % code, hint)


def _idle(facts: Dict[str, Any], kept: Recall, limits: Limits) -> Iterator[Sign]:
    cards = [card for card in facts.get("gpus") or [] if card.get("util_percent") is not None]
    mine = [card for card in cards if card.get("ours")]
    if not mine and (facts.get("wants_gpu") or any("ours" not in card or card.get("hidden") for card in cards)):
        mine = cards  # it should be on one, or nobody can tell whether it is
    trainer, progress = facts.get("trainer") or {}, facts.get("progress") or {}
    if not mine:
        return
    busy = any(card["util_percent"] > 0 for card in mine)
    if busy or not trainer.get("processes"):
        kept.idle_since_s = None
        yield Sign("gpu_idle", "", False, busy, WARN, "", "a card is busy again" if busy else "no trainer", "")
        return
    if kept.idle_since_s is None:
        kept.idle_since_s, kept.idle_step = facts["tick_s"], progress.get("step")
    idle_s = facts["tick_s"] - kept.idle_since_s
    moves = progress.get("step") != kept.idle_step
    yield Sign(
        "gpu_idle",
        "",
        idle_s >= limits.card_idle_s,
        False,
        WARN,
        "its cards do nothing for %s while the trainer lives" % _say_s(idle_s),
        "utilisation 0 %%, steps %s, processor %s %%" % ("advance" if moves else "stand", trainer.get("cpu_percent")),
        "steps advance: it waits for data, or trains on the processor; look at the loader"
        if moves
        else "no step either: is it loading, stuck, or waiting for a peer? lease logs shows its last words",
    )


def _facts(sign: Sign) -> Dict[str, Any]:
    return {name: getattr(sign, name) for name in ("name", "where", "level", "what", "seen", "hint")}


def _say_s(seconds: Optional[float]) -> str:
    return ago(60 * max(1, round((seconds or 0) / 60)))
