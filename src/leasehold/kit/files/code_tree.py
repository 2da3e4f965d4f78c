"""A code tree by content: the same files give the same hash on both ends."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List

from .canonical_json import canonical, sha256
from .paths import check_relative

SCHEMA = "leasehold.tree/1"


def tree_text(entries: Iterable[Dict[str, Any]]) -> bytes:
    """Return the text that a tree's hash covers: sorted {path, bytes, sha256, exec} and {path, link} entries."""
    return canonical({"schema": SCHEMA, "entries": sorted(entries, key=lambda entry: str(entry["path"]))})


def tree_hash(entries: Iterable[Dict[str, Any]]) -> str:
    """Return the hash that names a tree."""
    return sha256(tree_text(entries))


def read_tree_text(text: bytes, name: str) -> List[Dict[str, Any]]:
    """Return the entries of a tree with this hash; text of another hash or shape raises ValueError."""
    got = sha256(text)
    if got != name:
        raise ValueError("the code's list arrived as %s, not as %s" % (got[:12], name[:12]))
    value = json.loads(text.decode("utf-8"))
    if value.get("schema") != SCHEMA:
        raise ValueError("a list of code of schema %r, not %s" % (value.get("schema"), SCHEMA))
    return list(value["entries"])


def name_of(entry: Dict[str, Any]) -> str:
    """Name the blob of a tree entry; an executable file has its own inode, since hard links share their mode."""
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
