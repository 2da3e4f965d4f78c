"""Check that the home copy and the box are two places. Pure: readings in, findings out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.model.lease.machine import Machine, one_system
from leasehold.model.run.verdict import Finding, passes, refuses, unknown

# File systems that store their bytes on a disk (or in the memory) of the machine that mounts them.
_LOCAL_DISKS = (
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "overlay", "vfat", "exfat",
    "ntfs3", "ramfs",
)  # fmt: skip


@dataclass(frozen=True)
class HomeFolder:
    """A folder at home that must outlive the box, with what was read about it."""

    folder: str
    what: str  # its contents
    disk: str = ""  # the type of its file system
    source: str = ""  # its mount source
    from_box: bool = False  # that name the box
    below: str = ""  # path, below the box's folder, of the note that was left in it
    seen_as: str = ""  # where else the box sees that note
    inside: bool = False  # the box's folder is one of its parents, by device and inode
    problem: str = ""  # why no note could be left


@dataclass(frozen=True)
class PlaceReadings:
    """Readings of home and box side by side."""

    home: Machine
    box: Machine
    folders: tuple[HomeFolder, ...]
    whole: bool = False  # every folder in the box's root was searched


def judge_places(readings: PlaceReadings) -> list[Finding]:
    """Judge for each folder whether it lies in the box's folder; what is not proven is unknown."""
    return [_judge(readings, folder) for folder in readings.folders]


def lie_on_box(readings: PlaceReadings) -> list[Finding]:
    """Return only folders proven to lie in the box's folder, for an early error after a quick check."""
    return [finding for folder in readings.folders if (finding := _on_box(readings, folder)) is not None]


def doubts_of(readings: PlaceReadings) -> list[str]:
    """List what home and box share outside the box's folder; a person must check whether it outlives the box."""
    if one_system(readings.home, readings.box):
        return [
            "this home runs on the box itself (one boot, one process table): what ends the box may end this home too"
        ]
    return [
        f"{folder.what} ({folder.folder}) is seen on the box too, as {folder.seen_as}: does it outlive the box?"
        for folder in readings.folders
        if folder.seen_as and _on_box(readings, folder) is None
    ]


def _judge(readings: PlaceReadings, folder: HomeFolder) -> Finding:
    on_box = _on_box(readings, folder)
    if on_box is not None:
        return on_box
    where = f"{folder.what} ({folder.folder})"
    if not folder.problem and readings.whole:
        mounted = f"; it is mounted from {folder.source}" if ":" in folder.source else ""
        return passes(f"{where} is apart from the box's folder: a note left there is not seen in it{mounted}")
    if _own_disk(readings, folder):
        return passes(f"{where} is on a disk of this machine ({folder.disk}), whose kernel is not the box's")
    why = folder.problem or "not every folder on the box could be looked into in time"
    hint = "move the results to a disk of this machine, or make that folder writable, then try again"
    return unknown(f"whether {where} lies on the box itself is unknown: {why}", hint)


def _on_box(readings: PlaceReadings, folder: HomeFolder) -> Finding | None:
    how = ""
    if folder.below:
        how = f"a note left there is seen in the box's folder, as {folder.below}"
    elif folder.seen_as and _is_below(folder.seen_as, readings.box.root):
        how = f"a note left there is seen in the box's folder, as {folder.seen_as}"
    elif folder.inside and readings.home.boot and readings.home.boot == readings.box.boot:
        how = f"it lies below the box's folder {readings.box.root} (same device and inode)"
    elif folder.from_box:
        how = f"it is mounted from the box ({folder.source})"
    if not how:
        return None
    hint = "the only copy would go with the box: move the results to a disk of this machine (docs/teardown.md)"
    return refuses(f"{folder.what} ({folder.folder}) lies on the box itself: {how}", hint)


def _is_below(path: str, root: str) -> bool:
    return bool(root) and path.startswith(root.rstrip("/") + "/")


def _own_disk(readings: PlaceReadings, folder: HomeFolder) -> bool:
    """Return whether the folder is on a local disk of a machine whose kernel is not the box's: that proves it apart."""
    boots = (readings.home.boot, readings.box.boot)
    return folder.disk in _LOCAL_DISKS and all(boots) and boots[0] != boots[1]


def refusal_words(findings: Sequence[Finding]) -> str:
    """Join the findings for one error message."""
    return "\n".join(finding.what for finding in findings)
