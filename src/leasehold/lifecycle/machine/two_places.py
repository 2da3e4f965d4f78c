"""Prove that the home copy does not lie on the box: a note written beside the results must not be visible there."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.errors import Refusal
from leasehold.gates.end.two_places import HomeFolder, PlaceReadings, doubts_of, judge_places, lie_on_box, refusal_words
from leasehold.kit.run.processes import boot_id
from leasehold.model.lease.machine import Machine, machine_read
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import Witnessed
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import RunRecord
    from leasehold.model.run.verdict import Finding
    from leasehold.platforms.contract import Engine

    from .box import Box


_LOOK_S = 60.0  # seconds that the box may search its folder for a note
_LAUNCH_LOOK_S = 1.0
_PULL_LOOK_S = 0.2
_TAILS = 6
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """The source that a folder is mounted from."""

    kind: str = ""
    source: str = ""
    point: str = "/"
    below: str = "/"  # the folder of that file system which is mounted there


def read_places(
    engine: Engine, box: Box, folders: Sequence[tuple[Path, str]], limit_s: float = _LOOK_S
) -> PlaceReadings:
    """Write a note to each folder, have the box look for it, and delete the notes."""
    left = [(_nearest(folder), what) for folder, what in folders]
    left = list({str(folder): (folder, what) for folder, what in reversed(left)}.values())
    notes: list[dict[str, Any]] = []
    found: list[HomeFolder] = []
    with contextlib.ExitStack() as stack:
        for folder, what in left:
            note, problem = stack.enter_context(_note_in(folder))
            notes.append(note)
            mount = mount_of(folder)
            found.append(HomeFolder(str(folder), what, mount.kind, mount.source, problem=problem))
        answer = engine.notes.witness(notes, limit_s)
    machine = machine_read(answer["machine"], host_key(box))
    hosts = {name for name in (machine.host, _address(box)) if name}
    heard = tuple(_heard(*pair, answer, hosts) for pair in zip(found, notes, strict=True))
    return PlaceReadings(this_machine(), machine, heard, bool(answer["whole"]))


def _heard(folder: HomeFolder, note: dict[str, Any], answer: Witnessed, hosts: set[str]) -> HomeFolder:
    name = str(note["name"])
    host = folder.source.rpartition("@")[2].partition(":")[0] if ":" in folder.source else ""
    return replace(
        folder,
        below=str(answer["below"].get(name, "")),
        seen_as=str(answer["seen"].get(name, "")),
        inside=name in answer["inside"],
        from_box=bool(host) and host in hosts,
    )


def refuse_results_on_box(engine: Engine, box: Box, results: Path) -> None:
    """Refuse a launch whose results would come home to the box itself; a quick check, the gate checks everywhere."""
    findings = lie_on_box(read_places(engine, box, [(results, "the results' folder")], _LAUNCH_LOOK_S))
    if findings:
        raise Refusal(
            "results.on_box",
            "the results would come home to the box itself, and go with it; nothing was started",
            seen=refusal_words(findings),
            hint="lease run --results DIR, on a disk of this machine; or run it from a project that is not on the box",
        )


def warn_results_on_box(engine: Engine, box: Box, record: RunRecord, report: Report) -> None:
    """Warn at a pull that the copy stays on the box; the teardown will refuse."""
    readings = read_places(engine, box, [(Path(record.results), "the results' folder")], _PULL_LOOK_S)
    for finding in lie_on_box(readings):
        text = f"{finding.what}. This is no copy elsewhere, and lease down will refuse: {finding.hint}"
        report(Note("warning", text, {"results": record.results}))


class HomeJudged(NamedTuple):
    """The gate's facts on home and box."""

    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()


def judge_home(engine: Engine, box: Box, home: Home, records: Sequence[RunRecord], *, simulated: bool) -> HomeJudged:
    """Judge everything of this home that must outlive the box; a simulated box is nothing but its folder."""
    folders = [(home.path, "this home with its ledger")]
    for record in records:
        folders.append((Path(record.results), f"the results' folder of {record.run}"))
        if record.home_since:
            folders += [(place, f"the copy of {record.run}") for place in _lies_in(Path(record.home_since))]
    readings = read_places(engine, box, folders)
    return HomeJudged(tuple(judge_places(readings)), () if simulated else tuple(doubts_of(readings)))


def this_machine() -> Machine:
    """Read the identity of this machine."""
    said: dict[str, Any] = {"boot": boot_id(), "host": os.uname().nodename if hasattr(os, "uname") else ""}
    with contextlib.suppress(OSError):
        said["processes"] = os.readlink("/proc/self/ns/pid")
    with contextlib.suppress(OSError):
        said["machine_id"] = Path("/etc/machine-id").read_text().strip()
    with contextlib.suppress(OSError):
        slash = os.stat("/")
        said["slash"] = [slash.st_dev, slash.st_ino]
    return machine_read(said)


def host_key(box: Box) -> str:
    """Return the host key that connections to a box must present; empty where it has none."""
    asked = getattr(box.transport, "trusted_fingerprint", None)
    return str(asked()) if callable(asked) else ""


def _address(box: Box) -> str:
    return str(getattr(getattr(box.transport, "address", None), "host", ""))


def mount_of(folder: Path) -> Mount:
    """Find what a folder of this machine is mounted from; empty where the system does not report it."""
    best = Mount()
    for mount in _mounts():
        if _is_below(str(folder), mount.point) and len(mount.point) >= len(best.point):
            best = mount
    return best


def _mounts() -> Iterator[Mount]:
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, disk = before.split(" "), after.split(" ")
        if len(fields) >= 5 and len(disk) >= 2:
            yield Mount(disk[0], _plain(disk[1]), _plain(fields[4]), _plain(fields[3]))


def _lies_in(copy: Path) -> list[Path]:
    """List the folder above a copy, and the parts of the copy that are links or mounts of another place."""
    found, true = [copy.parent], os.path.realpath(copy.parent)
    for part in (copy, copy / "cells"):
        named, true = os.path.join(true, part.name), os.path.realpath(part)
        if named != true:
            found.append(part)
    files = (os.path.realpath(copy), true)
    return found + [Path(mount.point) for mount in _mounts() if any(_is_below(mount.point, file) for file in files)]


def seen_from_afar(folder: Path) -> tuple[list[str], list[str]]:
    """Guess the paths by which a box would see this folder: as here, as on the mount's server, and by its tail."""
    mount, real = mount_of(folder), str(folder)
    inner = os.path.relpath(real, mount.point)
    places, tails = [real], ["" if inner == "." else inner]
    if ":" in mount.source:
        far = mount.source.rpartition(":")[2]
        within = os.path.normpath(os.path.join(far, mount.below.lstrip("/"), inner))
        (places if within.startswith("/") else tails).append(within)
    parts = real.strip("/").split("/")
    tails += ["/".join(parts[-count:]) for count in range(1, min(_TAILS, len(parts)) + 1)]
    return places, list(dict.fromkeys(tails))


@contextlib.contextmanager
def _note_in(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    name, text = f".leasehold-witness-{secrets.token_hex(16)}", secrets.token_hex(16)
    places, tails = seen_from_afar(folder)
    note = {"name": name, "text": text, "places": places, "tails": tails, "above": _ids_above(folder)}
    path, problem = folder / name, ""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(fd, text.encode("ascii"))
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        problem = f"no note can be left there ({error.strerror or error})"
    try:
        yield note, problem
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _ids_above(folder: Path) -> list[str]:
    found = []
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            seen = place.stat()
            found.append(f"{seen.st_dev}:{seen.st_ino}")
    return found


def _nearest(folder: Path) -> Path:
    """Return the folder itself or its nearest existing parent, with links resolved."""
    place = folder.absolute()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return Path(os.path.realpath(place))


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
