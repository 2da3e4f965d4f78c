"""Upload a job's data to a box: once, with progress, resumed after cut links, refused at once on a full disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leasehold.errors import LinkError
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.project.local_data import DataTree
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes
from leasehold.platforms.data_stream import Lacking

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_SAY_EVERY_S = 5.0
_TRIES = 5  # consecutive attempts without progress
_PAUSE_S = 2.0


def upload(box: Box, engine: Engine, trees: Sequence[DataTree], report: Report) -> Engine:
    """Upload what the box lacks; return the connection that is open then, since a cut one is replaced."""
    first = engine
    for tree in trees:
        try:
            engine = _one(box, engine, tree, report)
        except BaseException:
            if engine is not first:
                engine.close()
            raise
    return engine


def _one(box: Box, engine: Engine, tree: DataTree, report: Report) -> Engine:
    failed, went = 0, False
    while True:
        progress = _Progress(tree, box.name, report)
        try:
            lacking = engine.uploads.lacking(tree)
            if not lacking:
                _say_there(tree, box.name, went, report)
                return engine
            progress.begin(lacking)
            went = True
            engine.uploads.send(tree, lacking, progress.more)
        except LinkError as error:
            failed = 1 if progress.sent else failed + 1
            if failed >= _TRIES:
                raise
            text = f"the link to {box.name} was cut ({error.message}); what arrived is kept, and the upload goes on"
            report(Note("unknown", text, {"to": tree.item.to}))
            engine = _again(box, engine, failed)


def _again(box: Box, engine: Engine, failed: int) -> Engine:
    engine.close()
    for left in range(_TRIES - failed, -1, -1):
        time.sleep(_PAUSE_S)
        try:
            return box.connect()
        except LinkError:
            if not left:
                raise
    raise AssertionError("the loop returns or raises")


def _say_there(tree: DataTree, box: str, went: bool, report: Report) -> None:
    item = tree.item
    files = "1 file" if item.files == 1 else f"{item.files:,} files"
    how = "every hash was checked there" if went else "it was there already and unchanged, so nothing travels"
    data = {"to": item.to, "bytes": item.bytes, "files": item.files, "sha256": item.sha256, "travelled": went}
    report(Note("data_there", f"data {item.to}: {files}, {say_bytes(item.bytes)}, on {box}; {how}", data))


class _Progress:
    """Progress reports of an upload, every few seconds."""

    def __init__(self, tree: DataTree, box: str, report: Report, clock: Callable[[], float] = time.monotonic) -> None:
        self.sent = 0
        self._tree = tree
        self._box = box
        self._report = report
        self._clock = clock
        self._total = 0
        self._begun = self._due = clock()

    def begin(self, lacking: Sequence[Lacking]) -> None:
        """Report what will be sent."""
        self._total = sum(one.missing for one in lacking)
        there = sum(one.offset for one in lacking)
        files = "1 file" if len(lacking) == 1 else f"{len(lacking):,} files"
        rest = f"; {say_bytes(there)} of them arrived before" if there else ""
        text = f"data {self._tree.item.to}: {say_bytes(self._total)} in {files} go to {self._box}{rest}"
        self._report(Note("data_begun", text, {"to": self._tree.item.to, "bytes": self._total, "there": there}))
        self._begun = self._clock()
        self._due = self._begun + _SAY_EVERY_S

    def more(self, count: int) -> None:
        """Count the bytes sent, including those still buffered in the link."""
        self.sent += count
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _SAY_EVERY_S
        rate = self.sent / (now - self._begun)
        left = (self._total - self.sent) / rate if rate else 0.0
        text = (
            f"data {self._tree.item.to}: {say_bytes(self.sent)} of {say_bytes(self._total)} sent, "
            f"{say_bytes(rate)}/s, about {left:.0f} s left"
        )
        self._report(Note("data_progress", text, {"sent": self.sent, "bytes": self._total}))
