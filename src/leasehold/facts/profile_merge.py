"""Overlays: a file with `extends` corrects another profile by key, and its lists by name."""

from __future__ import annotations

from typing import Any

_NAMED = ("tiers", "verbs", "clocks", "rates", "never", "signs")


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay one profile's data over another's; neither is changed."""
    merged = dict(base)
    for key, value in over.items():
        if key in ("extends", "remove"):
            continue
        old = merged.get(key)
        if key in _NAMED and isinstance(old, list) and isinstance(value, list):
            merged[key] = _by_name(old, value)
        elif isinstance(old, dict) and isinstance(value, dict):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return _without(merged, over.get("remove"))


def _by_name(old: list[Any], new: list[Any]) -> list[Any]:
    """Correct entries of the same name, and append the others."""
    merged = list(old)
    for item in new:
        if isinstance(item, str) and item in merged:
            continue
        name = item.get("name") if isinstance(item, dict) else None
        at = next((index for index, other in enumerate(merged) if _name(other) == name is not None), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = merge(merged[at], item)
    return merged


def _without(merged: dict[str, Any], remove: Any) -> dict[str, Any]:
    """Remove named entries: remove: {tiers: [data disk]}."""
    if remove is None:
        return merged
    if not isinstance(remove, dict):
        raise ValueError("remove must be a mapping such as {tiers: [data disk]}")
    for key, names in remove.items():
        if not isinstance(names, list):
            raise ValueError(f"remove.{key} must be a list of names")
        part = merged.get(key)
        if isinstance(part, dict):
            merged[key] = {name: value for name, value in part.items() if name not in names}
        elif isinstance(part, list):
            known = [_name(item) for item in part]
            stray = [name for name in names if name not in known]
            if stray:
                raise ValueError(f"remove.{key}: there is no {stray[0]!r}")
            merged[key] = [item for item in part if _name(item) not in names]
        else:
            raise ValueError(f"remove.{key}: there is nothing to remove from")
    return merged


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else item
