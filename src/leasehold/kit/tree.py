"""A code tree by content: the same files give the same hash on both ends."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from .canon import digest
from .paths import check_relative

SCHEMA = "leasehold.tree/1"


def tree_hash(entries: List[Dict[str, Any]]) -> str:
    """Hash sorted {path, bytes, sha256, exec} entries; links carry {path, link}."""
    return digest({"schema": SCHEMA, "entries": sorted(entries, key=lambda entry: str(entry["path"]))})


def name_of(entry: Dict[str, Any]) -> str:
    """Name the blob of a tree entry; an executable file is another inode, since links share their mode."""
    return str(entry["sha256"]) + ("x" if entry.get("exec") else "")


def check_link(path: str, target: str) -> str:
    """Return target if a symlink at path stays inside its tree; raise ValueError otherwise."""
    check_relative(path)
    if not target or target.startswith("/") or "\0" in target:
        raise ValueError("symlink %r points to %r, outside the project" % (path, target))
    if any("\ud800" <= char <= "\udfff" for char in target):
        raise ValueError("symlink %r points to %r, which is not valid UTF-8" % (path, target))
    landed = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if landed == ".." or landed.startswith("../"):
        raise ValueError("symlink %r points to %r, outside the project" % (path, target))
    return target
