"""GPU health checks. Pure: readings in, one judgement per property out. All thresholds are defined here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from leasehold.model.values.units import say_bytes

_MIB = 1 << 20


@dataclass(frozen=True)
class Thresholds:
    """Limits beyond which a reading becomes a finding; docs/hygiene.md prints the table."""

    hot_c: float = 83.0
    cool_c: float = 75.0  # the target temperature after cooling
    clock_share: float = 0.70  # SM clock as a share of its maximum, while hot and under load
    loaded_percent: float = 60.0  # below this load low clocks are normal
    unseen_bytes: int = 512 * _MIB  # memory in use that no visible process accounts for
    power_share: float = 0.90  # a power cap below this share of the default slows training


class Level(Enum):
    """Fail: stop and rent another card. Warn: worth knowing. Unknown: it could not be read, so nothing is cleared."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Health:
    """The judgement of one property of a card."""

    level: Level
    what: str
    hint: str = ""
    card: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields for --json."""
        return {"level": self.level.value, "what": self.what, "hint": self.hint, "card": self.card}


@dataclass(frozen=True)
class GpuReadings:
    """The box's answers about its GPUs."""

    cards: Sequence[Mapping[str, Any]] = ()
    problem: str = ""
    samples: Sequence[Sequence[Mapping[str, Any]]] = ()
    cuda: str = ""
    toolkit: str = ""
    module: str = ""
    kernel: Mapping[str, Any] = field(default_factory=dict)
    listed: Sequence[Sequence[Any]] = ()
    blind: bool = False
    holders: Sequence[Mapping[str, Any]] = ()
    devices: Sequence[str] = ()


_UNSEEN_HINT = (
    "another container, or what a dead process left behind: lease box gpu BOX --kill ends zombies; else restart it"
)
_XID_HINT = "lease doctor U22 says which Xid are the card's fault"
_RENT = "bring the results home and rent another machine; tell the provider the card's UUID"
_SLOWED = {
    "hw_thermal_slowdown": "the hardware slows it down because it is hot",
    "sw_thermal_slowdown": "the driver slows it down because it is hot",
    "hw_power_brake": "its power supply slows it down",
    "hw_slowdown": "the hardware slows it down",
}


def judge_health(readings: GpuReadings, limits: Thresholds | None = None) -> list[Health]:
    """Judge every reading; what could not be read is reported as unknown, never left out."""
    limits = limits or Thresholds()
    if readings.problem or not readings.cards:
        why = readings.problem or "the driver lists no card"
        hint = "is this the right box? In a container, was it started with its cards?"
        return [Health(Level.FAIL, f"no card answers: {why}", hint)]
    found = [*_driver(readings), *judge_kernel(readings.kernel)]
    for number, card in enumerate(readings.cards):
        mine = [sample[number] for sample in readings.samples if number < len(sample)]
        for health in (
            *_faults(card),
            *_heat(card, mine, limits),
            *_links(card, limits),
            *_memory(card, readings, limits),
        ):
            found.append(Health(health.level, health.what, health.hint, str(card.get("index", number))))
    return found


def worst(found: Sequence[Health]) -> Level:
    """Return the worst level: fail, then warn, then unknown, then ok."""
    seen = {health.level for health in found}
    return next((level for level in (Level.FAIL, Level.WARN, Level.UNKNOWN) if level in seen), Level.OK)


def thresholds() -> dict[str, Any]:
    """Return the thresholds for --json."""
    return asdict(Thresholds())


def _driver(readings: GpuReadings) -> list[Health]:
    version = str(readings.cards[0].get("driver") or "")
    found = []
    if readings.module and version and readings.module != version:
        said = f"the kernel's driver is {readings.module}, its library {version}"
        found.append(Health(Level.FAIL, said, "the driver was updated under a running system: the box must restart"))
    cuda = f"driver {version}" + (f", runs CUDA up to {readings.cuda}" if readings.cuda else "")
    if readings.cuda and readings.toolkit and _major(readings.toolkit) > _major(readings.cuda):
        hint = "use an image built for an older CUDA, or a host with a newer driver"
        found.append(Health(Level.WARN, f"{cuda}; the toolkit here is newer: {readings.toolkit}", hint))
    else:
        found.append(Health(Level.OK, cuda + (f"; toolkit {readings.toolkit}" if readings.toolkit else "")))
    return found


def judge_kernel(kernel: Mapping[str, Any]) -> list[Health]:
    """Judge the kernel log; an unreadable log clears nothing."""
    if not kernel.get("readable"):
        said = f"the kernel log cannot be read ({kernel.get('problem') or 'no reason given'}): Xid errors stay unseen"
        return [Health(Level.UNKNOWN, said, "this does not clear the card; ask the provider, or look as root")]
    seen = judge_xids(kernel)
    return [health for _, health in seen] or [Health(Level.OK, "no Xid in the kernel log since boot")]


def judge_fitness(card: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> list[Health]:
    """Judge one card by its own counters: memory errors, heat and throttling."""
    return [*_faults(card), *_heat(card, samples, Thresholds())]


def judge_xids(kernel: Mapping[str, Any]) -> list[tuple[str, Health]]:
    """Judge each kind of Xid in a readable log; return it with the bus of its card."""
    seen: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for item in kernel.get("xids", ()):
        seen.setdefault((str(item["bus"]), int(item["xid"])), []).append(item)
    return [(bus, _xid(bus, number, items)) for (bus, number), items in sorted(seen.items())]


def _xid(bus: str, number: int, items: Sequence[Mapping[str, Any]]) -> Health:
    often = f", {len(items)} times" if len(items) > 1 else ""
    what = f"Xid {number} on {bus}{often}: {items[-1]['meaning']}"
    return Health(Level.FAIL, what, _RENT) if items[-1]["leave"] else Health(Level.WARN, what, _XID_HINT)


def _faults(card: Mapping[str, Any]) -> list[Health]:
    """Judge memory errors and the card's reaction to them."""
    found = []
    if card.get("ecc_uncorrected"):
        found.append(Health(Level.FAIL, f"{card['ecc_uncorrected']} uncorrectable memory errors since boot", _RENT))
    if card.get("rows_failed"):
        found.append(Health(Level.FAIL, "a broken memory row could not be replaced", _RENT))
    if card.get("rows_pending") or card.get("pages_pending"):
        hint = "it takes effect when the card is reset: finish, then restart the box"
        found.append(Health(Level.WARN, "broken memory waits to be taken out of use", hint))
    for key, what in (("rows_uncorrectable", "memory rows replaced"), ("pages_retired", "pages retired")):
        if card.get(key):
            found.append(Health(Level.WARN, f"{card[key]} {what} after uncorrectable errors, ever", "more may follow"))
    action = str(card.get("recovery_action") or "")
    if action.lower() not in ("", "none", "n/a", "[n/a]"):
        found.append(Health(Level.FAIL, f"the driver asks for recovery: {action}", _RENT))
    if found:
        return found
    if card.get("ecc") is None and card.get("ecc_uncorrected") is None:
        return [Health(Level.UNKNOWN, "it counts no memory errors (no ECC): they stay unseen")]
    if card.get("ecc") is False:
        return [Health(Level.WARN, "ECC is off: memory errors go unnoticed", "the provider can turn it on")]
    fixed = card.get("ecc_corrected")
    return [Health(Level.OK, "no uncorrectable memory error" + (f"; {fixed} corrected" if fixed else ""))]


def _heat(card: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], limits: Thresholds) -> list[Health]:
    if not samples:
        return [Health(Level.WARN, "no sample could be taken", "lease box gpu BOX again")]
    found = [
        Health(
            Level.FAIL,
            f"{what} ({_times(key, samples)} of {len(samples)} samples)",
            "the host cools or feeds it badly: " + _RENT,
        )
        for key, what in _SLOWED.items()
        if _times(key, samples) and not (key == "hw_slowdown" and _times("hw_thermal_slowdown", samples))
    ]
    if all(sample.get("reasons") is None for sample in samples):
        found.append(Health(Level.UNKNOWN, "the driver does not report whether it is slowed down"))
    hottest = max((sample.get("temperature_c") or 0 for sample in samples), default=0)
    shown = _shown(card, samples)
    if not any(sample.get("temperature_c") is not None for sample in samples):
        return [*found, Health(Level.UNKNOWN, f"it does not report its temperature{shown and f' ({shown})'}")]
    if hottest < limits.hot_c:
        warmer = f", above the {limits.cool_c:g} °C target" if hottest > limits.cool_c else ""
        return [*found, Health(Level.OK, shown + warmer)]
    slow = [sample for sample in samples if _slow(card, sample, limits)]
    if slow:
        low = min(sample["sm_mhz"] for sample in slow)
        said = f"{shown}: hot, and its clock fell to {low} of {card['sm_mhz_max']} MHz under load"
        return [*found, Health(Level.FAIL, said, "the host cools it badly: " + _RENT)]
    return [
        *found,
        Health(Level.WARN, f"{shown}: hot, but its clock has not dropped", "watch it; it may slow down soon"),
    ]


def _slow(card: Mapping[str, Any], sample: Mapping[str, Any], limits: Thresholds) -> bool:
    clock, most = sample.get("sm_mhz"), card.get("sm_mhz_max")
    loaded = (sample.get("util_percent") or 0) >= limits.loaded_percent
    return bool(clock and most and loaded and clock < limits.clock_share * most)


def _shown(card: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> str:
    heat = _range(samples, "temperature_c")
    parts = [f"{heat} °C" if heat else ""]
    for key, unit, most in (("sm_mhz", "MHz", "sm_mhz_max"), ("power_w", "W", "power_limit_w")):
        seen = _range(samples, key)
        parts.append(f"{seen} of {card.get(most) or '?'} {unit}" if seen else "")
    parts.append(f"{_range(samples, 'util_percent')} % busy" if _range(samples, "util_percent") else "")
    return ", ".join(part for part in parts if part)


def _links(card: Mapping[str, Any], limits: Thresholds) -> list[Health]:
    found = []
    width, most = card.get("pcie_width"), card.get("pcie_width_max")
    if width and most and width < most:
        said = f"PCIe link is {width} lanes wide, not {most}: data reaches it more slowly"
        found.append(Health(Level.WARN, said, "a slot or cable of the host; if loading is slow, another machine"))
    elif width:
        found.append(Health(Level.OK, f"PCIe {card.get('pcie_gen') or '?'}, {width} lanes"))
    if card.get("persistence") is False:
        hint = "each first use takes seconds longer; as root: nvidia-smi -pm 1"
        found.append(Health(Level.WARN, "persistence mode is off", hint))
    cap, normal = card.get("power_limit_w"), card.get("power_default_w")
    if cap and normal and cap < limits.power_share * normal:
        said = f"its power is capped at {cap} W, {normal} W is normal: expect slower steps"
        found.append(Health(Level.WARN, said, "the host's choice; compare prices by step, not by hour"))
    return found


def _memory(card: Mapping[str, Any], readings: GpuReadings, limits: Thresholds) -> list[Health]:
    """Judge memory in use, and whether a visible process accounts for it."""
    used = card.get("memory_used_bytes")
    if used is None:
        return [Health(Level.UNKNOWN, "the card does not report how much of its memory is used")]
    here = {int(row["pid"]) for row in readings.holders}
    mine = [item for item in readings.listed if item[1] == card.get("uuid")]
    gone = [item for item in mine if item[0] not in here]
    unseen = used - sum(int(item[2] or 0) for item in mine if item[0] in here)
    total = card.get("memory_total_bytes")
    said = f"{say_bytes(used)}{f' of {say_bytes(total)}' if total else ''} memory in use"
    if unseen <= limits.unseen_bytes:
        return [Health(Level.OK, said)]
    if readings.blind and readings.holders:
        return [Health(Level.OK, f"{said}; {len(readings.holders)} processes of this container have a card open")]
    said += f"; {say_bytes(unseen)} of it belong to no process that can be seen"
    if gone:
        said += f" (the driver names pid {', '.join(str(item[0]) for item in gone)}, which is not here)"
    return [Health(Level.WARN, said, _UNSEEN_HINT)]


def _range(samples: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [sample[key] for sample in samples if sample.get(key) is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def _times(reason: str, samples: Sequence[Mapping[str, Any]]) -> int:
    return sum(reason in (sample.get("reasons") or ()) for sample in samples)


def _major(version: str) -> int:
    head = version.split(".")[0]
    return int(head) if head.isdigit() else 0
