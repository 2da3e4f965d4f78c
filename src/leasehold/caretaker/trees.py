"""Code trees on the box, one folder a content hash, never changed once whole."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, List, Optional

from leasehold.kit import frames
from leasehold.kit.atomic import fsync_folder
from leasehold.kit.paths import UnsafePath, check_name, join_checked
from leasehold.kit.tree import check_link, tree_hash

from .serve import Refused, Request


def tree_path(root: str, name: str) -> str:
    """Where the tree with this hash lies."""
    return os.path.join(root, "trees", check_name(name, "tree"))


def have_tree(request: Request) -> None:
    """Tell whether a tree is here whole."""
    request.reply({"have": os.path.isdir(tree_path(request.root, str(request.args["tree"])))})


def put_tree(request: Request) -> None:
    """Receive files into a folder of their own, check the tree hash, then rename into place."""
    name = str(request.args["tree"])
    target = tree_path(request.root, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    staging = "%s.partial-%d-%d" % (target, os.getpid(), id(request))
    os.mkdir(staging)
    try:
        entries = _receive(request, staging)
        got = tree_hash(entries)
        if got != name:
            raise Refused("code.tree_differs", "the code arrived as %s, not as %s" % (got[:12], name[:12]))
        _into_place(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    request.reply({"tree": name, "files": len(entries)})


def _receive(request: Request, staging: str) -> List[Dict[str, Any]]:
    import hashlib

    entries: List[Dict[str, Any]] = []
    current: Optional[_Incoming] = None
    for frame in request.body():
        if frame.type == frames.DATA and current is not None:
            current.write(frame.payload)
            continue
        if current is not None:
            entries.append(current.close())
        current = None
        head = frame.json()
        if "link" in head:
            entries.append(_make_link(staging, head))
        else:
            current = _Incoming(staging, head, hashlib.sha256())
    if current is not None:
        entries.append(current.close())
    return entries


class _Incoming:
    """One file on its way in."""

    def __init__(self, staging: str, head: Dict[str, Any], sha: Any) -> None:
        self._path = str(head["path"])
        self._executable = bool(head.get("exec"))
        self._sha = sha
        self._bytes = 0
        try:
            where = join_checked(staging, self._path)
        except UnsafePath as error:
            raise Refused("code.unsafe_path", str(error)) from None
        os.makedirs(os.path.dirname(where), exist_ok=True)
        mode = 0o755 if self._executable else 0o644
        self._fd = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)

    def write(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._sha.update(chunk)
        self._bytes += len(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> Dict[str, Any]:
        """Finish the file and return its tree entry."""
        os.close(self._fd)
        entry: Dict[str, Any] = {"path": self._path, "bytes": self._bytes, "sha256": self._sha.hexdigest()}
        if self._executable:
            entry["exec"] = True
        return entry


def _make_link(staging: str, head: Dict[str, Any]) -> Dict[str, Any]:
    try:
        where = join_checked(staging, str(head["path"]))
        target = check_link(str(head["path"]), str(head["link"]))
    except ValueError as error:
        raise Refused("code.unsafe_path", str(error)) from None
    os.makedirs(os.path.dirname(where), exist_ok=True)
    os.symlink(target, where)
    return {"path": head["path"], "link": target}


def _into_place(staging: str, target: str) -> None:
    try:
        os.rename(staging, target)
        fsync_folder(os.path.dirname(target))
    except OSError:
        if not os.path.isdir(target):  # another home brought the same tree first: equal by hash
            raise
