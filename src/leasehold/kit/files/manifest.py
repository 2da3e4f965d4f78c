"""The artifacts on the box: path, bytes and sha256 of each, in one sealed file."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterator, List, Set, Tuple

from .canonical_json import canonical
from .canonical_json import sha256 as sha256_of
from .file_layouts import words
from .globbing import Found, Matches, matching
from .paths import UnsafePath, check_name, check_relative, open_below
from .sha256 import blocks, hash_blocks

SCHEMA = "leasehold.manifest/1"
TINY_BYTES = 128 << 10  # a file up to this size is hashed while it is sent, so that it is opened once

Row = Tuple[str, str, int, int]  # cell, path, bytes, mtime_ns


class ManifestError(Exception):
    """The artifacts cannot be sealed, or a manifest is invalid; str() names the path."""


def build(run: str, plan_sha256: str, cells: Dict[str, str], patterns: List[str]) -> Dict[str, Any]:
    """Hash every artifact of every cell; refuse symlinks, empty files and missing promised files."""
    roster: Dict[str, List[Dict[str, Any]]] = {}
    for cell, found in sorted(survey(cells, patterns)):
        roster.setdefault(cell, []).append(_hash_entry(cells[cell], found))
    return assemble(run, plan_sha256, patterns, roster)


def survey(cells: Dict[str, str], patterns: List[str]) -> Iterator[Tuple[str, Found]]:
    """Yield every artifact of every cell unread, as it is found; refuse symlinks, empty files and missing promises."""
    some = False
    for cell, root in sorted(cells.items()):
        matches = Matches(root, patterns)
        for found in matches:
            some = True
            yield cell, _check_file(root, found)
        for pattern in matches.unmatched:
            raise ManifestError("cell %s: nothing matches the promised artifact %r in %s" % (cell, pattern, root))
    if not some:
        raise ManifestError("no artifact at all: the roster is empty")


def assemble(
    run: str, plan_sha256: str, patterns: List[str], roster: Dict[str, List[Dict[str, Any]]]
) -> Dict[str, Any]:
    """Build the manifest from hashed entries."""
    return {
        "schema": SCHEMA,
        "run": run,
        "plan_sha256": plan_sha256,
        "created_unix": int(time.time()),
        "patterns": list(patterns),
        "cells": roster,
        "totals": _totals(roster),
    }


def encode(manifest: Dict[str, Any]) -> bytes:
    """Encode a manifest in the one form that its hash is computed over."""
    return canonical(manifest)


def contents_sha256(manifest: Dict[str, Any]) -> str:
    """Return a digest of what a manifest names, without the times and places of one copy of it."""
    rows = {
        cell: sorted([entry["path"], entry["bytes"], entry["sha256"]] for entry in entries)
        for cell, entries in manifest["cells"].items()
    }
    return sha256_of(canonical(rows))


def parse(value: Any, run: str) -> Dict[str, Any]:
    """Check and return a manifest that came from an untrusted box."""
    if not isinstance(value, dict) or "schema" not in value:
        raise ManifestError("not a manifest of schema %s" % SCHEMA)
    if value["schema"] != SCHEMA:
        raise ManifestError(words("the manifest", value["schema"], SCHEMA, str(value.get("leasehold") or "")))
    if value.get("run") != run:
        raise ManifestError("the manifest is of run %r, not of %r" % (value.get("run"), run))
    cells = value.get("cells")
    if not isinstance(cells, dict) or not cells:
        raise ManifestError("the manifest has no cells")
    for cell, entries in cells.items():
        _parse_cell(cell, entries)
    if value.get("totals") != _totals(cells):
        raise ManifestError("the totals %r are not the sum of the entries" % (value.get("totals"),))
    return value


class Listed:
    """The list of files of an untrusted box, checked as it arrives; their hashes follow later."""

    def __init__(self) -> None:
        self._names: Dict[str, _Names] = {}

    def check(self, rows: Any) -> List[Row]:
        """Check the next [cell, path, bytes, mtime_ns]; all files so far must be able to coexist on the box."""
        checked = []
        try:
            for cell, path, size, mtime_ns in rows:
                names = self._names.get(cell)
                if names is None:
                    names = self._names[cell] = _Names(check_name(cell, "cell"))
                names.add(path)
                if type(size) is not int or size <= 0 or type(mtime_ns) is not int or mtime_ns < 0:
                    raise ManifestError("%r: bytes and mtime_ns are %r and %r" % (path, size, mtime_ns))
                checked.append((cell, path, size, mtime_ns))
        except UnsafePath as error:
            raise ManifestError(str(error)) from None
        except (TypeError, ValueError) as error:
            raise ManifestError("the list of files is not one: %s" % error) from None
        return checked


class _Names:
    """The paths of one cell: no duplicates, and none below another. Case-insensitive conflicts are home's concern."""

    def __init__(self, cell: str) -> None:
        self._cell = cell
        self._files: Set[str] = set()
        self._folders: Set[str] = set()

    def add(self, path: Any) -> None:
        """Add one path, or report what it conflicts with."""
        checked = check_relative(path)
        if checked in self._files:
            raise ManifestError("cell %s: two paths are equal: %r" % (self._cell, path))
        if checked in self._folders:
            raise ManifestError("cell %s: a file lies below another file, %r" % (self._cell, path))
        self._files.add(checked)
        folder = checked.rpartition("/")[0]
        while folder and folder not in self._folders:
            if folder in self._files:
                raise ManifestError("cell %s: %r lies below another file" % (self._cell, path))
            self._folders.add(folder)
            folder = folder.rpartition("/")[0]


def fingerprints(cells: Dict[str, str], patterns: List[str]) -> Dict[str, List[Dict[str, Any]]]:
    """Stat every matching artifact without reading it: the teardown gate compares these."""
    return {cell: [stat_entry(f) for f in unique(matching(root, patterns))] for cell, root in cells.items()}


def hash_all(root: str, found: List[Found]) -> List[Dict[str, Any]]:
    """Read and hash files that were listed; one that changed since raises ManifestError."""
    return [_hash_entry(root, one) for one in found]


def unique(hits: List[List[Found]]) -> List[Found]:
    """List what several patterns matched, each file once, by path."""
    by_path = {found.path: found for hit in hits for found in hit}
    return [by_path[path] for path in sorted(by_path)]


def stat_entry(found: Found) -> Dict[str, Any]:
    """Return what is known of a file without reading it."""
    info = found.info
    return {
        "path": found.path,
        "bytes": info.st_size,
        "mtime_ns": info.st_mtime_ns,
        "ctime_ns": info.st_ctime_ns,
        "inode": info.st_ino,
    }


def _totals(roster: Dict[str, List[Dict[str, Any]]]) -> Dict[str, int]:
    sizes = [entry["bytes"] for entries in roster.values() for entry in entries]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _check_file(root: str, found: Found) -> Found:
    where = os.path.join(root, found.path)
    try:
        check_relative(found.path)
    except UnsafePath as error:
        raise ManifestError(str(error)) from None
    if not found.is_file:
        what = "a symlink" if found.is_link else "not a regular file"
        raise ManifestError("%s is %s; artifacts must be plain files" % (where, what))
    if found.info.st_size == 0:
        raise ManifestError("%s is empty (0 bytes)" % where)
    return found


def _hash_entry(root: str, found: Found) -> Dict[str, Any]:
    where = os.path.join(root, found.path)
    try:
        fd = open_below(root, found.path)
    except (OSError, UnsafePath) as error:  # swapped since it was listed
        raise ManifestError("%s cannot be read: %s" % (where, error)) from None
    with os.fdopen(fd, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        _, sha256 = hash_blocks(blocks(file.read), found.info.st_size)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ManifestError("%s changed while it was hashed; is something still writing it?" % where)
    entry = stat_entry(Found(found.path, after))
    entry["sha256"] = sha256
    return entry


def _parse_cell(cell: Any, entries: Any) -> None:
    try:
        check_name(cell, "cell")
        if not isinstance(entries, list) or not entries:
            raise ManifestError("cell %r lists no files" % (cell,))
        names = _Names(cell)
        for entry in entries:
            names.add(entry["path"])
            _parse_entry(entry)
    except UnsafePath as error:
        raise ManifestError(str(error)) from None
    except (KeyError, TypeError):
        raise ManifestError("cell %r: an entry lacks path, bytes or sha256" % (cell,)) from None


def _parse_entry(entry: Dict[str, Any]) -> None:
    for key in ("bytes", "mtime_ns", "inode", *(("ctime_ns",) if "ctime_ns" in entry else ())):
        if not isinstance(entry[key], int) or isinstance(entry[key], bool) or entry[key] < 0:
            raise ManifestError("%r: %s is %r" % (entry["path"], key, entry[key]))
    sha = entry["sha256"]
    if not isinstance(sha, str) or len(sha) != 64 or sha.strip("0123456789abcdef"):
        raise ManifestError("%r: sha256 is %r" % (entry["path"], sha))
    if entry["bytes"] == 0:
        raise ManifestError("%r is empty (0 bytes)" % entry["path"])
