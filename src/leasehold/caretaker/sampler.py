"""The patrol's own process: reads everything at every tick, keeps the series, tells the caretaker over a pipe.

It stands apart because a network disk can hang whoever asks; the caretaker must not. Before each disk it says what it
is about to ask, so that the caretaker knows what to leave out next time.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from leasehold.kit.atomic import write_all

from .cards import Cards, whose
from .kernel_log import XidTail
from .layout import RunFolder
from .log_reader import LogReader
from .nvml import REASONS
from .series import Series
from .vitals import Disks, Memory, Target, Trainer, tiers_of

TICK_S = 5.0
_READ_BYTES = 1 << 16
_MIB = 1 << 20


class Pipes:
    """Both ends of the talk with the caretaker; its death closes `down`, and we leave."""

    def __init__(self, down: int, up: int) -> None:
        self._down, self._up = down, up
        self._rest = b""
        self.target = Target()  # the newest word of the caretaker

    def tell(self, value: Dict[str, Any]) -> None:
        """Say one thing to the caretaker."""
        write_all(self._up, json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")

    def hear(self, wait_s: float) -> bool:
        """Wait at most so long for a word of the caretaker; False says that it is gone."""
        ready, _, _ = select.select([self._down], [], [], max(0.0, wait_s))
        if not ready:
            return True
        chunk = os.read(self._down, _READ_BYTES)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if lines:
            word = json.loads(lines[-1])
            self.target = Target(**dict(word, alarms=tuple(word["alarms"])))
        return bool(chunk)


class Sampler:
    """Reads one sample; `skip` names what hung last time and is left out."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], pipes: Pipes, skip: Sequence[str]) -> None:
        self._folder, self._pipes, self._skip = folder, pipes, skip
        self._disks = Disks(tiers_of(folder))
        self._memory, self._trainer = Memory(), Trainer(folder)
        self._log = LogReader(str(plan["job"].get("progress") or "auto"))
        self._cards, self._xids = Cards(), XidTail()
        self._gpus: Dict[str, Any] = {"gpus": []}
        self._places: Dict[Any, int] = {}  # cards by their bus, kept when one falls off it

    def sample(self, target: Target, now_unix: float, now_s: float) -> Dict[str, Any]:
        """Read everything once; what cannot be read is absent."""
        facts: Dict[str, Any] = {"t": round(now_unix, 1), "state": target.state}
        facts["disks"] = [disk for disk in (self._disk(tier, now_s) for tier in self._disks.tiers) if disk]
        facts["memory"] = self._memory.read(now_s)
        facts["trainer"] = self._trainer.read(target, now_s)
        if target.cell:
            facts["cell"], facts["attempt"] = target.cell, target.attempt
            log = os.path.join(self._folder.attempt(target.cell, target.attempt), "log")
            facts["progress"] = self._log.read(log, now_s)
        facts.update(self._read_cards(now_s))
        return facts

    def _disk(self, tier: Any, now_s: float) -> Optional[Dict[str, Any]]:
        return self._disks.read(tier, now_s) if self._may("disk " + tier.path) else None

    def _read_cards(self, now_s: float) -> Dict[str, Any]:
        """Give the cards as last heard; `gpus_fresh` says that they were asked just now."""
        answer = self._cards.read(now_s)
        if answer is None:
            return dict(self._gpus, gpus_fresh=False, xids=self._new_xids())
        for card in answer.gpus:
            card.update(whose(card, self._trainer.pids, self._folder.mark()))
            card.pop("processes", None)
        self._gpus = {"gpus": answer.gpus, "gpu_problem": answer.problem, "gpu_hung": answer.hung}
        if answer.gpus:
            self._gpus["hears_xids"] = self._xids.readable
        return dict(self._gpus, gpus_fresh=True, xids=self._new_xids())

    def _new_xids(self) -> List[Tuple[int, int]]:
        self._places.update({card.get("bus"): card["index"] for card in self._gpus["gpus"]})
        return [(self._places.get(bus, -1), code) for bus, code in self._xids.new()]

    def _may(self, what: str) -> bool:
        """Say what is asked next; what hung before is left out."""
        if what in self._skip:
            return False
        self._pipes.tell({"doing": what})
        return True


def live(folder: RunFolder, plan: Dict[str, Any], pipes: Pipes, skip: Sequence[str]) -> None:
    """Sample at every tick until the caretaker is gone."""
    sampler, series = Sampler(folder, plan, pipes, skip), _open_series(folder)
    next_s = time.monotonic()
    while pipes.hear(next_s - time.monotonic()):
        if time.monotonic() < next_s:
            continue
        next_s = max(next_s + TICK_S, time.monotonic())
        facts = sampler.sample(pipes.target, time.time(), time.monotonic())
        if not pipes.hear(0.0):  # it went while something hung: another one writes the series now
            return
        try:
            series = series or _open_series(folder)
            if series is not None:
                series.add(record_of(facts, pipes.target))
            facts["kept"] = series is not None
        except OSError:  # a full disk, before the ring had its place
            facts["kept"] = False
        pipes.tell(facts)


def record_of(facts: Dict[str, Any], target: Target) -> Dict[str, Any]:
    """Shorten a sample to what the series keeps."""
    progress, trainer, memory = facts.get("progress") or {}, facts.get("trainer") or {}, facts.get("memory") or {}
    record = {
        "t": facts["t"],
        "s": target.state,
        "step": progress.get("step"),
        "loss": progress.get("loss"),
        "rate": _short(progress.get("rate_per_s")),
        "quiet": _whole(progress.get("quiet_s")),
        "cries": progress.get("cries") or None,
        "procs": trainer.get("processes", 0),
        "cpu": trainer.get("cpu_percent"),
        "rss": _mib(trainer.get("rss_bytes")),
        "mem": _mib(memory.get("used_bytes")),
        "lim": _mib(memory.get("limit_bytes")),
        "disks": [_disk_row(disk) for disk in facts.get("disks") or []],
        "gpus": [_card_row(card) for card in facts.get("gpus") or []] if facts.get("gpus_fresh") else [],
        "a": list(target.alarms),
        "epoch": progress.get("epoch"),
        "m": progress.get("metrics"),
    }
    kept = {name: value for name, value in record.items() if value is not None and value != [] and value != ""}
    if "loss" in progress and progress["loss"] is None:
        kept["loss"] = None  # it was a number once, and is none any more
    return kept


def _open_series(folder: RunFolder) -> Optional[Series]:
    try:
        return Series(folder.readings)
    except OSError:
        return None


def _disk_row(disk: Dict[str, Any]) -> List[Any]:
    return [
        _percent(disk["total_bytes"] - disk["free_bytes"], disk["total_bytes"]),
        _mib(disk["free_bytes"]),
        _percent(disk["total_inodes"] - disk["free_inodes"], disk["total_inodes"]),
    ]


def _card_row(card: Dict[str, Any]) -> List[Any]:
    bits = sum(bit for bit, name in REASONS if name in (card.get("reasons") or ()))
    power = _whole(card.get("power_w"))
    used = _mib(card.get("memory_used_bytes"))
    return [card.get("util_percent"), used, power, card.get("temperature_c"), card.get("sm_mhz"), bits]


def _percent(part: int, whole: int) -> Optional[float]:
    return round(100 * part / whole, 2) if whole else None


def _mib(count: Optional[int]) -> Optional[int]:
    return None if count is None else count // _MIB


def _whole(value: Optional[float]) -> Optional[int]:
    return None if value is None else round(value)


def _short(value: Optional[float]) -> Optional[float]:
    return None if value is None else float("%.4g" % value)
