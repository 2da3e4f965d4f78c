"""Format disks and their contents from the data that --json gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago, one_line

_SHOWN = 3  # units listed for a class
_TARGETS_SHOWN = 20
_DELETED_SHOWN = 5
_FULL_SHARE = 0.95  # the patrol's alarm threshold


def disk_lines(seen: Mapping[str, Any], *, everything: bool = False) -> Iterator[str]:
    """Yield each tier with its classes, then what may be freed."""
    for tier in seen["tiers"]:
        yield from _tier_lines(seen, tier, everything)
    for link in seen["links"]:
        yield f"{link['path']} is a link; it is counted where it lies: {link['real']}"
    yield from _plan_lines(seen, everything)
    for item in seen["quarantines"]:
        size = f"{item['items']} things, {say_bytes(int(item['bytes']))}"
        yield f"in quarantine {item['stamp']}: {size} (--undo or --empty-quarantine {item['stamp']})"
    if seen["unread_processes"]:
        yield f"{seen['unread_processes']} processes of other users could not be checked for open files"


def _tier_lines(seen: Mapping[str, Any], tier: Mapping[str, Any], everything: bool) -> Iterator[str]:
    where = f"{tier['real']}  ({tier['filesystem']} at {tier['mount']})"
    yield f"{where}: {_full(tier, 'bytes')}; {_full(tier, 'inodes')}"
    for trend in seen["trends"]:
        if trend["mount"] == tier["mount"]:
            yield f"  full in {_soonest(trend)} at the pace of {trend['run']}, as its patrol estimates"
    if not tier["complete"]:
        at = one_line(str(tier["stopped_at"]))
        yield f"  INCOMPLETE: the time was up after {int(tier['entries']):,} files, at {at}; --limit 10min reads more"
    if tier["unread_count"]:
        yield f"  {tier['unread_count']} folders could not be read, the first: {one_line(str(tier['unread'][0]))}"
    for kind, (size, inodes, units) in sorted(tier["totals"].items(), key=lambda item: (-item[1][0], -item[1][1])):
        title = tier["titles"][kind] + (f" ({units})" if units > 1 else "")
        yield f"  {say_bytes(size):>10}  {inodes:>10,} files  {title}"
        mine = [unit for unit in seen["units"] if (unit["tier"], unit["class"]) == (tier["real"], kind)]
        mine.sort(key=lambda unit: (-unit["bytes"], -unit["inodes"]))
        for unit in mine if everything else mine[:_SHOWN]:
            yield f"  {'':>10}  {say_bytes(unit['bytes']):>10}  {unit['path']}{_remark(unit)}"
    for held in tier["deleted_open"][:_DELETED_SHOWN]:
        who = "; ".join(f"pid {pid} {command}" for pid, command in zip(held["pids"], held["commands"], strict=False))
        yield f"  {say_bytes(int(held['bytes'])):>10}  deleted, and held open by {who}: it is freed when that ends"


def _soonest(trend: Mapping[str, Any]) -> str:
    found = [(float(trend[f"{what}_full_in_s"]), what) for what in ("bytes", "inodes") if f"{what}_full_in_s" in trend]
    left_s, what = min(found)
    return f"{ago(left_s)} ({what})"


def _remark(unit: Mapping[str, Any]) -> str:
    many = f"  ({unit['inodes']:,} files: tar shards of a few hundred MB would spare inodes)"
    return (f"  stays: {unit['why']}" if unit["held"] else "") + (many if unit["many_files"] else "")


def _plan_lines(seen: Mapping[str, Any], everything: bool) -> Iterator[str]:
    targets = [unit for unit in seen["units"] if unit["target"]]
    if not targets:
        yield "nothing here may be freed automatically: the rest is for you to judge"
        return
    yield f"may go: {len(targets)} targets, {say_bytes(seen['targets_free_bytes'])}, cheapest to get back first"
    for unit in targets if everything else targets[:_TARGETS_SHOWN]:
        yield f"  {say_bytes(unit['frees_bytes']):>10}  {unit['path']}"
        yield f"  {'':>10}  {unit['title']}: {unit['why']}; to get it back: {unit['cost']}"
    if len(targets) > _TARGETS_SHOWN and not everything:
        yield f"  … and {len(targets) - _TARGETS_SHOWN} more (--all)"
    room = say_bytes(seen["targets_free_bytes"]).replace(" ", "")
    yield f"to put some aside: lease box disk {seen['box']} --free {room}"


def _full(tier: Mapping[str, Any], what: str) -> str:
    total, free = int(tier.get(f"usable_{what}", tier[f"total_{what}"])), int(tier[f"free_{what}"])
    if not total:
        return f"counts no {what}"
    shown = say_bytes(free) if what == "bytes" else f"{free:,} inodes"
    full = "  FULL" if 1 - free / total >= _FULL_SHARE else ""
    return f"{shown} free, {1 - free / total:.0%} used{full}"
