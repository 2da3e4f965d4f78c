"""The cards, whichever way they can be asked; who is on them; and the kernel's word on their errors."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Tuple, Union

from leasehold.kit.procs import MARK, environment

from .nvml import LIBRARY, CannotAsk, Nvml
from .smi import Smi

_DEEP_EVERY_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 30.0, 600.0
_KERNEL_LOG = "/dev/kmsg"
_MOST_MESSAGES = 500
_XID = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,24})\): (\d{1,4})")
_SELDOM = (
    "ecc_uncorrected", "ecc_corrected", "pages_retired", "rows_remapped", "rows_pending", "rows_failed", "processes",
)  # fmt: skip

Xid = Tuple[int, int]  # card (-1 when not known), code


class Cards:
    """Asks the driver's library, else the driver's tool; when neither answers, tries again ever more seldom."""

    def __init__(self, tick_s: float, library: str = LIBRARY, kernel_log: str = _KERNEL_LOG) -> None:
        self._tick_s, self._name = tick_s, library
        self._asked: Union[Nvml, Smi, None] = None
        self._about: Dict[int, Dict[str, Any]] = {}
        self._seldom: Dict[int, Dict[str, Any]] = {}
        self._deep_s = self._again_s = float("-inf")
        self._pause_s = _FIRST_PAUSE_S
        self._kernel: Optional[KernelLog] = None
        self._kernel_name = kernel_log
        self.problem = ""

    def read(self, now_s: float) -> List[Dict[str, Any]]:
        """Read every card; without an answer the list is empty and `problem` says why."""
        if self._asked is None and now_s >= self._again_s:
            self._open(now_s)
        if self._asked is None:
            return []
        deep = now_s - self._deep_s >= _DEEP_EVERY_S
        try:
            found = self._asked.sample(deep)
        except CannotAsk as error:
            self._give_up(str(error), now_s)
            return []
        if deep:
            self._deep_s = now_s
            self._seldom = {card["index"]: {name: card[name] for name in _SELDOM if name in card} for card in found}
        merged = [dict(self._about.get(card["index"], {}), **self._seldom.get(card["index"], {})) for card in found]
        return [dict(before, **card) for before, card in zip(merged, found)]

    def xids(self) -> List[Xid]:
        """Take the Xid errors that came since the last call."""
        if self._asked is not None and self._asked.hears_xids:
            return self._asked.xids()
        if self._asked is not None and self._kernel is None:
            self._kernel = KernelLog(self._kernel_name)
        return self._kernel.xids() if self._kernel is not None else []

    @property
    def hears_xids(self) -> bool:
        """Whether an Xid would be noticed at all."""
        return (self._asked is not None and self._asked.hears_xids) or bool(self._kernel and self._kernel.readable)

    def close(self) -> None:
        """Let go of the driver."""
        if self._asked is not None:
            self._asked.close()
        self._asked = None

    def _open(self, now_s: float) -> None:
        try:
            self._asked = Nvml(self._name)
        except CannotAsk as error:
            problem = str(error)
            try:
                self._asked = Smi(max(1, int(self._tick_s)))
            except CannotAsk as second:
                self._give_up("%s; %s" % (problem, second), now_s)
                return
        self.problem, self._deep_s = "", float("-inf")
        self._about = {card["index"]: card for card in self._asked.describe()}

    def _give_up(self, problem: str, now_s: float) -> None:
        self.close()
        self.problem = problem
        self._again_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


class KernelLog:
    """Xid errors as the kernel logs them, from now on; containers may often not read it."""

    def __init__(self, path: str = _KERNEL_LOG) -> None:
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            return

    @property
    def readable(self) -> bool:
        """Whether it may be read here."""
        return self._fd >= 0

    def xids(self) -> List[Xid]:
        """Take what came since the last call; each read gives one message."""
        found: List[Xid] = []
        for _ in range(_MOST_MESSAGES if self.readable else 0):
            try:
                message = os.read(self._fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:  # older messages were overwritten; the next read goes on
                continue
            except OSError:
                self._fd = -1
                break
            if not message:
                break
            found += [(-1, int(code)) for _, code in _XID.findall(message)]
        return found


def holders(card: Dict[str, Any], ours: List[int], mark: str) -> Dict[str, Any]:
    """Tell whose the processes on a card are: ours, others' that we can see, and those of another namespace."""
    listed = card.get("processes")
    if listed is None:
        return {}
    mine, others, hidden = 0, [], 0
    for one in listed:
        pid = one["pid"]
        if pid in ours or environment(pid).get(MARK, "").startswith(mark):
            mine += 1
        elif os.path.exists("/proc/%d" % pid):
            others.append(dict(one, name=_name_of(pid)))
        else:
            hidden += 1  # the driver counts in the host's numbers, we live in a container
    return {"ours": mine, "others": others[:8], "hidden": hidden}


def _name_of(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, "rb") as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""
