"""Decode the driver's bits for why a card's clocks are where they are."""

from __future__ import annotations

from typing import List

REASONS = (  # bits of the clocks' event reasons
    (0x0001, "idle"),
    (0x0002, "application_clocks"),
    (0x0004, "sw_power_cap"),
    (0x0008, "hw_slowdown"),
    (0x0010, "sync_boost"),
    (0x0020, "sw_thermal_slowdown"),
    (0x0040, "hw_thermal_slowdown"),
    (0x0080, "hw_power_brake"),
    (0x0100, "display_clocks"),
)


def reasons_of(bits: int) -> List[str]:
    """List the reasons that hold the clocks where they are."""
    return [name for bit, name in REASONS if bits & bit]
