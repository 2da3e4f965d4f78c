"""A box's folder with code on it, and the requests that bring and prune it, without a connection."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

from leasehold.caretaker.uploads.prune_code import prune
from leasehold.caretaker.uploads.trees import put_tree, want_tree
from leasehold.kit.files.code_tree import name_of, tree_hash, tree_text
from leasehold.kit.wire import frames


class Asked:
    """A request as an operation sees it."""

    def __init__(self, root: Path, body: List[frames.Frame], **args: Any) -> None:
        self.root = str(root)
        self.args = args
        self.answers: List[Dict[str, Any]] = []
        self._body = body

    def reply(self, value: Dict[str, Any]) -> None:
        """Keep an answer."""
        self.answers.append(value)

    def body(self) -> Iterator[frames.Frame]:
        """Yield what home sent."""
        return iter(self._body)


class Shelf:
    """A box's folder with code on it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def announce(self, files: Dict[str, bytes]) -> str:
        """Say what a tree holds, and send none of it."""
        return self._want(files)[0]

    def _want(self, files: Dict[str, bytes]) -> Tuple[str, Set[str]]:
        entries = entries_of(files)
        name = tree_hash(entries)
        packed = zlib.compress(tree_text(entries))
        request = Asked(self.root, [frames.Frame(1, frames.DATA, packed)], tree=name)
        want_tree(request)  # type: ignore[arg-type]
        return name, {blob for answer in request.answers for blob in answer.get("names", [])}

    def push(self, files: Dict[str, bytes]) -> str:
        """Bring a whole tree, of which only what is lacking travels."""
        name, lacking = self._want(files)
        if lacking:
            sent = {path: data for path, data in files.items() if self.names({path: data})[0] in lacking}
            self.send(name, sent, b"".join(sent.values()))
        return name

    def send(self, name: str, files: Dict[str, bytes], *sent: bytes) -> None:
        """Promise files and send these bytes of them, a frame each."""
        head = {"blobs": [[name_of(entry), entry["bytes"]] for entry in entries_of(files)]}
        body = [frames.Frame(1, frames.JSON, json.dumps(head).encode())]
        body += [frames.Frame(1, frames.DATA, data) for data in sent]
        put_tree(Asked(self.root, body, tree=name))  # type: ignore[arg-type]

    def names(self, files: Dict[str, bytes]) -> List[str]:
        """Name the blobs of files."""
        return [name_of(entry) for entry in entries_of(files)]

    def whole(self, name: str) -> bool:
        """Whether a tree is here."""
        return (self.root / "trees" / (name + ".list")).exists()

    def has(self, content: bytes) -> bool:
        """Whether a file's content is here."""
        name = hashlib.sha256(content).hexdigest()
        return (self.root / "blobs" / name[:2] / name).exists()

    def prune(self, dry_run: bool = False) -> Dict[str, Any]:
        """Prune and return the answer."""
        request = Asked(self.root, [], dry_run=dry_run)
        prune(request)  # type: ignore[arg-type]
        return request.answers[-1]

    def run(self, name: str, tree: str) -> None:
        """Have a run that was planned with this tree and has not ended."""
        folder = self.root / "active" / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps({"run": name, "tree": tree, "cells": ["main"]}))


def entries_of(files: Dict[str, bytes]) -> List[Dict[str, Any]]:
    """List files as a tree does."""
    return [
        {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    ]
