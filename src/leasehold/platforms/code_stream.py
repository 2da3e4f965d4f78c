"""Stream code to a box: headers that name many files, and their bytes end to end, compressed on a long line."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from leasehold.kit.files.code_tree import name_of
from leasehold.kit.wire import frames

_FILES_A_HEAD = 1000
_SHRINKS_BELOW = 0.9


class Tree(Protocol):
    """Code that can be sent."""

    @property
    def sha256(self) -> str:
        """Return the tree's name on every box."""

    @property
    def text(self) -> bytes:
        """Return the list that this name is the hash of."""

    @property
    def entries(self) -> Sequence[dict[str, Any]]:
        """Return files {path, bytes, sha256, exec} and links {path, link}."""

    @property
    def changed(self) -> Sequence[dict[str, Any]]:
        """Return the few files that no box is likely to have: they are sent unasked."""

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """Yield a file's bytes."""


@dataclass(frozen=True)
class Pushed:
    """Whether the tree was new to the box, and which part had to be sent."""

    new: bool
    files: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        return self.new


def sizes_of(tree: Tree) -> dict[str, int]:
    """Map each content of a tree to its size."""
    return {name_of(entry): int(entry["bytes"]) for entry in tree.entries if "link" not in entry}


def list_stream(tree: Tree) -> Iterator[bytes]:
    """Yield a tree's list in the form that the box reads."""
    data = zlib.compress(tree.text, 1)
    for start in range(0, len(data), frames.CHUNK_BYTES):
        yield data[start : start + frames.CHUNK_BYTES]


def blob_stream(tree: Tree, lacking: set[str], *, pack: bool = False) -> Iterator[dict[str, Any] | bytes]:
    """Yield headers and the bytes of many files end to end, in frames of a size that suits the wire."""
    left = set(lacking)
    batch: list[dict[str, Any]] = []
    for entry in tree.entries:
        if "link" in entry or name_of(entry) not in left:
            continue
        left.discard(name_of(entry))
        batch.append(entry)
        if len(batch) == _FILES_A_HEAD:
            yield from _one_head(tree, batch, pack)
            batch = []
    if batch:
        yield from _one_head(tree, batch, pack)


def _one_head(tree: Tree, batch: list[dict[str, Any]], pack: bool) -> Iterator[dict[str, Any] | bytes]:
    head: dict[str, Any] = {"blobs": [[name_of(entry), int(entry["bytes"])] for entry in batch]}
    parts = _end_to_end(tree, batch)
    first = next(parts, b"") if pack else b""
    sample = zlib.compress(first, 1) if first else b""
    if len(sample) < _SHRINKS_BELOW * len(first):  # compression pays
        yield {**head, "packed": True}
        yield sample
        for part in parts:
            yield zlib.compress(part, 1)
    else:
        yield head
        yield from chain([first] if first else [], parts)


def _end_to_end(tree: Tree, batch: list[dict[str, Any]]) -> Iterator[bytes]:
    held = bytearray()
    for entry in batch:
        sent = 0
        for chunk in tree.read(entry):
            held += chunk
            sent += len(chunk)
            if len(held) >= frames.CHUNK_BYTES:
                yield bytes(held)
                held.clear()
        held += bytes(max(0, int(entry["bytes"]) - sent))  # it shrank meanwhile: the box will refuse its hash
    if held:
        yield bytes(held)
