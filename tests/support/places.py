"""Places of the contract suite: add a row for another kind, with what opens it and closes it again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Callable, ContextManager, Dict, Iterator

from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import Place


class Opened:
    """A place, opened again and again as by several processes, and its objects as its own system shows them."""

    def __init__(self, again: Callable[[], Place], spoil: Callable[[str, bytes], None], page: int = 20) -> None:
        self.again = again
        self.page = page  # how many objects one answer lists
        self.spoil = spoil  # replaces the bytes of an object behind the place's back


@contextlib.contextmanager
def folder(scratch: Path) -> Iterator[Opened]:
    """Give a folder on this disk."""
    root = scratch / "tier"
    root.mkdir()

    def spoil(key: str, data: bytes) -> None:
        (root / key).write_bytes(data)

    yield Opened(lambda: FolderPlace(str(root)), spoil)


PLACES: Dict[str, Callable[[Path], ContextManager[Opened]]] = {"folder": folder}
