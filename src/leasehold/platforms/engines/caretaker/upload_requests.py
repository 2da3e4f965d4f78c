"""Requests that send code and data to the box, and remove them there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import BoxError, LinkError
from leasehold.kit.files.code_tree import name_of
from leasehold.platforms.code_stream import Pushed, Tree, blob_stream, list_stream, sizes_of
from leasehold.platforms.data_stream import Data, Lacking, Tell, ask_lacking, send
from leasehold.transport.contract import FAR_S

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import Pruned
    from leasehold.transport.wire import Wire

_PING_S = 5.0


class UploadRequests:
    """Send what the box lacks, by content."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def push(self, tree: Tree) -> Pushed:
        """Send the parts of the code that the box lacks; of a tree that is there whole nothing is sent."""
        sent = {name_of(entry): int(entry["bytes"]) for entry in tree.changed}
        sizes = {} if sent else sizes_of(tree)  # after an edit hardly more than that is lacking
        how_far = self._measure_meanwhile(bool(sizes))
        body = chain(list_stream(tree), blob_stream(tree, set(sent)))
        lacking: set[str] = set()
        answer: dict[str, Any] = {}
        for answer in self._wire.objects("want_tree", body, tree=tree.sha256, files=len(sizes)):
            lacking.update(answer.get("names", ()))
        if answer.get("have"):
            return Pushed(False)
        if not lacking and answer.get("lack") == len(sizes):
            lacking.update(sizes)  # a box that lacks all files need not name them
        if lacking:
            sizes = sizes or sizes_of(tree)
            far = FAR_S <= how_far() < float("inf")
            self._wire.ask("put_tree", blob_stream(tree, lacking, pack=far), tree=tree.sha256)
            sent.update((name, sizes.get(name, 0)) for name in lacking)
        return Pushed(True, len(sent), sum(sent.values()))

    def lacking(self, data: Data) -> list[Lacking]:
        """List the files of the data that the box lacks; it refuses where there is no room for them."""
        return ask_lacking(self._wire, data)

    def send(self, data: Data, lacking: Sequence[Lacking], tell: Tell) -> None:
        """Send these files from where the box's copies end; it checks each file's hash."""
        send(self._wire, data, lacking, tell)

    def prune(self, *, dry_run: bool) -> Pruned:
        """Remove code on the box that nothing uses: {trees, kept, blobs, bytes}."""
        return cast("Pruned", self._wire.ask("prune", dry_run=dry_run))

    def _measure_meanwhile(self, worth: bool) -> Callable[[], float]:
        """Measure the round trip during another request; the returned function waits for it."""
        if not worth or self._wire.quickest_s != float("inf"):
            return lambda: self._wire.quickest_s
        measuring = threading.Thread(target=self._try_round_trip, daemon=True)
        measuring.start()

        def told() -> float:
            measuring.join(_PING_S)
            return self._wire.quickest_s

        return told

    def _try_round_trip(self) -> None:
        with contextlib.suppress(LinkError, BoxError):  # the next request over this link fails likewise
            round_trip_s(self._wire)


def round_trip_s(wire: Wire) -> float:
    """Measure the round trip: the best of at least two requests, since the first may wake something up."""
    new_to_us = wire.quickest_s == float("inf")
    for _ in range(1 + new_to_us):
        wire.ask("ping")
    return wire.quickest_s
