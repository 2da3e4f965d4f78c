"""Read the cards through the driver's own library. Every figure may be missing: old drivers, small cards, MIG.

Opening it costs a process 19 MB (measured on an H200), and a call may hang with the driver: so it is opened only in
a short-lived child.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_uint, c_ulonglong, c_void_p
from typing import Any, Dict, List, Optional, Tuple

from .clock_reasons import reasons_of

_LACKING = 13  # the library has no such function
_TOO_SMALL = 7
_LOST = (15, 16)  # fallen off the bus, or waiting for a reset
_WORDS = {
    1: "not initialised",
    3: "not supported",
    4: "no permission",
    9: "the driver is not loaded",
    12: "the library is not there",
    15: "the card is lost",
    16: "the card must be reset",
    17: "blocked by the operating system",
    18: "driver and library are of two versions (the driver was updated and not reloaded)",
    999: "unknown error",
}
_SM_CLOCK, _CORE_SENSOR = 1, 0
_UNCORRECTED, _CORRECTED, _SINCE_BOOT = 1, 0, 0
_DOUBLE_BIT = 1
_NOT_KNOWN = (1 << 64) - 1
_MOST_CARDS, _MOST_PROCESSES = 64, 256
_MEMORY_V2 = 40 | (2 << 24)  # the struct's size, and its version


class CannotAsk(Exception):
    """The driver does not answer here; str() gives the reason."""


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class _MemoryV2(ctypes.Structure):
    _fields_ = [
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    ]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    ]


class _Process(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("bytes", c_ulonglong), ("instance", c_uint), ("compute", c_uint)]


class _ProcessV1(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("bytes", c_ulonglong)]


class Nvml:
    """An open library; raises CannotAsk when there is no driver to ask."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise CannotAsk(str(error)) from None
        code = self._call("nvmlInit_v2")
        code = self._call("nvmlInit") if code == _LACKING else code
        if code:
            raise CannotAsk(say(code))
        self._cards = self._open_cards()

    def cards(self) -> List[Dict[str, Any]]:
        """Read every card; what one does not report is absent."""
        return [self._card(index, card) for index, card in enumerate(self._cards)]

    def close(self) -> None:
        """Close the library."""
        self._call("nvmlShutdown")

    def _open_cards(self) -> List[c_void_p]:
        count = c_uint()
        code = self._call("nvmlDeviceGetCount_v2", byref(count))
        code = self._call("nvmlDeviceGetCount", byref(count)) if code == _LACKING else code
        if code:
            raise CannotAsk(say(code))
        cards = []
        for index in range(min(count.value, _MOST_CARDS)):
            card = c_void_p()
            code = self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(card))
            if code == _LACKING:
                code = self._call("nvmlDeviceGetHandleByIndex", c_uint(index), byref(card))
            cards.append(card if not code else c_void_p())  # a card that we may not open keeps its place
        return cards

    def _card(self, index: int, card: c_void_p) -> Dict[str, Any]:
        if not card.value:
            return {"index": index, "problem": "the driver does not open it for us"}
        load = _Utilisation()
        code = self._call("nvmlDeviceGetUtilizationRates", card, byref(load))
        if code in _LOST:
            return {"index": index, "lost": True, "problem": say(code)}
        used, total = self._memory(card)
        return _known(
            index=index,
            name=self._text("nvmlDeviceGetName", card),
            bus=self._bus(card),
            util_percent=None if code else int(load.gpu),
            memory_used_bytes=used,
            memory_total_bytes=total,
            sm_mhz=self._figure("nvmlDeviceGetClockInfo", card, _SM_CLOCK),
            sm_mhz_max=self._figure("nvmlDeviceGetMaxClockInfo", card, _SM_CLOCK),
            power_w=_watts(self._figure("nvmlDeviceGetPowerUsage", card)),
            power_limit_w=_watts(self._figure("nvmlDeviceGetEnforcedPowerLimit", card)),
            temperature_c=self._figure("nvmlDeviceGetTemperature", card, _CORE_SENSOR),
            reasons=self._reasons(card),
            ecc_uncorrected=self._ecc(card, _UNCORRECTED),
            ecc_corrected=self._ecc(card, _CORRECTED),
            pages_retired=self._retired(card),
            processes=self._processes(card),
            **self._rows(card),
        )

    def _memory(self, card: c_void_p) -> Tuple[Optional[int], Optional[int]]:
        newer = _MemoryV2(version=_MEMORY_V2)  # separates what the driver reserves for itself from what is used
        if not self._call("nvmlDeviceGetMemoryInfo_v2", card, byref(newer)):
            return int(newer.used), int(newer.total)
        older = _Memory()
        if not self._call("nvmlDeviceGetMemoryInfo", card, byref(older)):
            return int(older.used), int(older.total)
        return None, None

    def _bus(self, card: c_void_p) -> Optional[str]:
        """Return its bus address as the kernel's log writes it."""
        info = _Pci()
        code = self._call("nvmlDeviceGetPciInfo_v3", card, byref(info))
        return None if code else "%04x:%02x:%02x" % (info.domain, info.bus, info.device)

    def _reasons(self, card: c_void_p) -> Optional[List[str]]:
        bits = c_ulonglong()
        code = self._call("nvmlDeviceGetCurrentClocksEventReasons", card, byref(bits))
        if code == _LACKING:
            code = self._call("nvmlDeviceGetCurrentClocksThrottleReasons", card, byref(bits))
        return None if code else reasons_of(bits.value)

    def _ecc(self, card: c_void_p, kind: int) -> Optional[int]:
        count = c_ulonglong()
        asked = (c_uint(kind), c_uint(_SINCE_BOOT), byref(count))
        return None if self._call("nvmlDeviceGetTotalEccErrors", card, *asked) else int(count.value)

    def _rows(self, card: c_void_p) -> Dict[str, Any]:
        corrected, uncorrected, pending, failed = c_uint(), c_uint(), c_uint(), c_uint()
        asked = (byref(corrected), byref(uncorrected), byref(pending), byref(failed))
        if self._call("nvmlDeviceGetRemappedRows", card, *asked):
            return {}
        rows = {"rows_remapped": corrected.value + uncorrected.value}
        return dict(rows, rows_pending=bool(pending.value), rows_failed=bool(failed.value))

    def _retired(self, card: c_void_p) -> Optional[int]:
        count = c_uint(0)
        code = self._call("nvmlDeviceGetRetiredPages", card, c_uint(_DOUBLE_BIT), byref(count), None)
        return int(count.value) if code in (0, _TOO_SMALL) else None

    def _processes(self, card: c_void_p) -> Optional[List[Dict[str, Any]]]:
        for name, kind in (
            ("nvmlDeviceGetComputeRunningProcesses_v3", _Process),
            ("nvmlDeviceGetComputeRunningProcesses_v2", _Process),
            ("nvmlDeviceGetComputeRunningProcesses", _ProcessV1),
        ):
            listed = (kind * _MOST_PROCESSES)()
            count = c_uint(_MOST_PROCESSES)
            code = self._call(name, card, byref(count), byref(listed))
            if code != _LACKING:
                held = [_held(one) for one in listed[: min(count.value, _MOST_PROCESSES)]]
                return None if code else held
        return None

    def _figure(self, name: str, card: c_void_p, *asked: int) -> Optional[int]:
        value = c_uint()
        words = [c_uint(word) for word in asked]
        return None if self._call(name, card, *words, byref(value)) else int(value.value)

    def _text(self, name: str, card: c_void_p) -> Optional[str]:
        text = (c_char * 96)()
        code = self._call(name, card, text, c_uint(96))
        return None if code else text.value.decode("utf-8", "replace")

    def _call(self, name: str, *asked: Any) -> int:
        function = getattr(self._library, name, None)  # a function that a version lacks is simply not there
        return _LACKING if function is None else int(function(*asked))


def say(code: int) -> str:
    """Format an error code of the library."""
    return "the NVIDIA driver reports: %s" % _WORDS.get(code, "error %d" % code)


def _held(one: Any) -> Dict[str, Any]:
    return {"pid": int(one.pid), "bytes": None if one.bytes == _NOT_KNOWN else int(one.bytes)}


def _watts(milliwatts: Optional[int]) -> Optional[float]:
    return None if milliwatts is None else round(milliwatts / 1000, 1)


def _known(**facts: Any) -> Dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
