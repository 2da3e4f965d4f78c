"""Salvage: copy everything a cell left, promised or not, into quarantine before it is given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError
from leasehold.kit.files.paths import UnsafePath, check_relative, join_checked
from leasehold.kit.files.sha256 import hash_blocks
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import count
from leasehold.lifecycle.home.result_names import HomeNames, Probe
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


def salvage(engine: Engine, run: str, cell: str, place: Path, report: Report) -> list[dict[str, Any]]:
    """Copy everything a cell left behind into quarantine, promised or not, as far as it can be read.

    Returns every plain file as the box listed it, with `salvaged`, and the sha256 of the copy where there is one.
    """
    found = []
    place.mkdir(parents=True, exist_ok=True)
    names = HomeNames(Probe(place))
    for entry in engine.proof.salvageable(run, cell):
        path = str(entry["path"])
        copied: dict[str, Any] = {}
        try:
            name = names.of(cell, check_relative(path))
            copied = _salvage_one(engine.ranges.get(run, "out", cell, path), place, name)
            if name != path:
                copied["home"] = name
                report(Note("renamed", f"{one_line(path)} is {one_line(name)} here: another file has its name"))
        except (UnsafePath, BoxError) as error:
            report(Note("not_salvaged", f"not salvaged: {one_line(path)}: {one_line(str(error))}"))
        found.append({**entry, **copied, "salvaged": bool(copied)})
    kept = sum(entry["salvaged"] for entry in found)
    report(Note("salvaged", f"salvaged {count(kept, 'file')} of {cell} into {place}"))
    return found


def _salvage_one(chunks: Iterator[bytes], place: Path, path: str) -> dict[str, Any]:
    target = Path(join_checked(str(place), path))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(target, "wb") as file:
            size, digest = hash_blocks(chunks, each=file.write)
    except BoxError:
        target.unlink()
        raise
    return {"bytes": size, "sha256": digest}
