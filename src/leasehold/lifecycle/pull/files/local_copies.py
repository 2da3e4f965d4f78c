"""Reuse files that are already home elsewhere (set aside, evacuated, or of an older promise): link, do not fetch."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.manifest import ManifestError, parse
from leasehold.kit.files.paths import UnsafePath, join_checked
from leasehold.kit.files.sha256 import hash_file


class AtHome:
    """Files of earlier pulls of a run, by the sums in the manifests beside them."""

    def __init__(self, folders: Iterable[Path], run: str) -> None:
        self._places: dict[tuple[str, int], list[Path]] = {}
        for folder in folders:
            for key, place in _listed(folder, run):
                self._places.setdefault(key, []).append(place)
        self._sizes = {size for _, size in self._places}

    def may_have(self, size: int) -> bool:
        """Return whether any file of this size is known."""
        return size in self._sizes

    def places(self, sha: str, size: int) -> list[Path]:
        """Return where a file with this sum should lie."""
        return self._places.get((sha, size), [])


def link_equal(places: Iterable[Path], sha: str, target: str) -> bool:
    """Link a file that really has this sum to target; return whether there was one. Each is read: none is trusted."""
    for place in places:
        try:
            if not place.is_file() or place.is_symlink() or hash_file(str(place)) != sha:
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            try:
                os.link(place, target)
            except OSError:  # another filesystem, or one without hard links
                shutil.copyfile(place, target)
            return True
        except OSError:
            continue
    return False


def _listed(folder: Path, run: str) -> list[tuple[tuple[str, int], Path]]:
    try:
        cells = parse(json.loads((folder / "manifest.json").read_bytes()), run)["cells"]
    except (OSError, ValueError, RecursionError, ManifestError):
        return []
    names = (read_json(str(folder / "receipt.json")) or {}).get("home_names", {})
    found = []
    for cell, entries in cells.items():
        for entry in entries:
            name = entry.get("home", entry["path"])
            key = f"{cell}/{name}"
            with contextlib.suppress(UnsafePath, AttributeError):
                place = join_checked(str(folder / "cells"), names.get(key, key))
                found.append(((str(entry["sha256"]), int(entry["bytes"])), Path(place)))
    return found
