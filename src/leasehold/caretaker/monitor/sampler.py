"""Take one sample of everything, and shorten it to a line of the series."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from leasehold.caretaker.gpu.cards import Answer, ask_driver, whose
from leasehold.caretaker.gpu.clock_reasons import REASONS
from leasehold.caretaker.machine.kernel_log import XidTail
from leasehold.caretaker.run.run_folder import RunFolder

from .log_reader import LogReader
from .slow_probes import Asking, Heard
from .vitals import Disks, Memory, Target, Trainer, tiers_of

_MIB = 1 << 20
_GPU = "gpu"


class Sampler:
    """Reads memory, processes and the log itself; disks and cards, which may hang, through a child."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any]) -> None:
        self._folder = folder
        self._memory, self._trainer, self._xids = Memory(), Trainer(folder), XidTail()
        self._log = LogReader(str(plan["job"].get("progress") or "auto"))
        self._disks = Disks(tiers_of(folder))
        self._cards: Dict[str, Any] = {"gpus": [], "gpu_problem": ""}
        self._wants_gpu = bool(plan["job"].get("gpu"))
        self._places: Dict[Any, int] = {}  # cards by their bus, kept when one falls off it
        self._hung: List[str] = []
        self._fresh: List[str] = []
        self._asking = Asking(dict(self._disks.questions, **{_GPU: ask_driver}))

    def hear(self, now_s: float, before: Callable[[], None]) -> None:
        """Advance the background probes; cheap, called every turn."""
        for heard in self._asking.step(now_s, before):
            self._fresh.append(heard.name)
            self._hung = [name for name in self._hung if name != heard.name] + ([heard.name] if heard.hung else [])
            if heard.name == _GPU:
                self._take_cards(heard, now_s)
            else:
                self._disks.take(heard.name, heard.value, now_s)

    def sample(self, target: Target, now_unix: float, now_s: float) -> Dict[str, Any]:
        """Return all readings; `fresh` lists the probes answered since the last sample."""
        facts: Dict[str, Any] = {"t": round(now_unix, 1), "tick_s": round(now_s, 1), "state": target.state}
        facts["disks"] = self._disks.facts
        facts["memory"] = self._memory.read(now_s)
        facts["trainer"] = self._trainer.read(target, now_s)
        if target.cell:
            facts["cell"], facts["attempt"] = target.cell, target.attempt
            log = os.path.join(self._folder.attempt(target.cell, target.attempt), "log")
            facts["progress"] = self._log.read(log, now_s)
        facts.update(self._cards, wants_gpu=self._wants_gpu, hung=list(self._hung), xids=self._new_xids())
        facts["fresh"], self._fresh = self._fresh, []
        return facts

    def end(self) -> None:
        """End a running probe."""
        self._asking.end()
        self._xids.close()

    def _take_cards(self, heard: Heard, now_s: float) -> None:
        answer = Answer(*heard.value) if heard.value else Answer([], "the driver did not answer")
        if not answer.gpus:
            self._asking.put_off(_GPU, now_s)
        for card in answer.gpus:
            card.update(whose(card, self._trainer.pids, self._folder.mark()))
            card.pop("processes", None)
        self._cards = {"gpus": answer.gpus, "gpu_problem": answer.problem}
        self._places.update({card.get("bus"): card["index"] for card in answer.gpus})
        if answer.gpus:
            self._cards["hears_xids"] = self._xids.readable

    def _new_xids(self) -> List[Tuple[int, int]]:
        return [(self._places.get(bus, -1), code) for bus, code in self._xids.new()]


def record_of(facts: Dict[str, Any], target: Target) -> Dict[str, Any]:
    """Shorten a sample to what the series keeps."""
    progress, trainer, memory = facts.get("progress") or {}, facts.get("trainer") or {}, facts.get("memory") or {}
    record = {
        "t": facts["t"],
        "s": target.state,
        "c": facts.get("cell") if facts.get("cell") != "main" else None,
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
        "oom": memory.get("oom_kills") or None,
        "disks": [_disk_row(disk) for disk in facts.get("disks") or []] if _asked(facts, "disk ") else [],
        "gpus": [_card_row(card) for card in facts.get("gpus") or []] if _asked(facts, _GPU) else [],
        "a": list(target.alarms),
        "epoch": progress.get("epoch"),
        "m": progress.get("metrics"),
    }
    kept = {name: value for name, value in record.items() if value is not None and value != [] and value != ""}
    if "loss" in progress and progress["loss"] is None:
        kept["loss"] = None  # it was a number once, and is none any more
    return kept


def _asked(facts: Dict[str, Any], kind: str) -> bool:
    return any(name.startswith(kind) for name in facts.get("fresh") or ())


def _disk_row(disk: Dict[str, Any]) -> List[Any]:
    if "total_bytes" not in disk:
        return []  # gone for now; the others keep their places
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
