"""The caretaker engine: our own supervisor on the box, over one wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leasehold.kit import frames
from leasehold.model.plan import Plan
from leasehold.transport.wire import Wire, object_of

_NOTHING: Mapping[str, Any] = {}


class CaretakerEngine:
    """Speaks to the box's `serve` over an open wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def probe(self) -> dict[str, Any]:
        """Say who and where the box is."""
        return self.wire.ask("probe")

    def push(self, tree: str, parts: Iterable[dict[str, Any] | bytes]) -> bool:
        """Bring the code if the box lacks it; return whether it had to travel."""
        if self.wire.ask("have_tree", tree=tree).get("have"):
            return False
        self.wire.ask("put_tree", parts, tree=tree)
        return True

    def start(self, plan: Plan, home: str, private: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Start the run or attach to it."""
        return self.wire.ask("start", run=plan.run, plan=plan.as_dict(), home=home, **private)

    def resume(self, run: str, seq: int, home: str, private: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Continue an ended run if nothing happened since seq."""
        return self.wire.ask("resume", run=run, seq=seq, home=home, **private)

    def hush(self, run: str) -> None:
        """End the box's nagging about a run."""
        self.wire.ask("hush", run=run)

    def power_off(self, command: Sequence[str]) -> None:
        """Have the box end itself a moment after it answered; refused while anything of ours lives on it."""
        self.wire.ask("power_off", command=list(command))

    def look(self, run: str) -> dict[str, Any]:
        """Say what is true of the run now."""
        return self.wire.ask("look", run=run)

    def runs(self) -> list[dict[str, Any]]:
        """List every run the box knows."""
        return list(self.wire.objects("runs"))

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[dict[str, Any]]:
        """Yield batches {events, offset} from a byte offset on."""
        return self.wire.objects("events", run=run, offset=offset, follow_s=follow_s)

    def tail(self, run: str, cell: str, attempt: int, offset: int, follow_s: float) -> Iterator[bytes]:
        """Yield an attempt's log from a byte offset on."""
        return self.wire.chunks("tail", run=run, cell=cell, attempt=attempt, offset=offset, follow_s=follow_s)

    def follow(
        self, run: str, offset: int, logs: dict[str, int], tail_bytes: int = -1
    ) -> Iterator[dict[str, Any] | bytes]:
        """Yield {events, offset}, {log}, log bytes and {beat_unix} as they come, until the run has ended."""
        for frame in self.wire.stream("follow", run=run, offset=offset, logs=logs, tail_bytes=tail_bytes):
            yield frame.payload if frame.type == frames.DATA else object_of(frame)

    def stop(self, run: str, wish: dict[str, Any]) -> dict[str, Any]:
        """Ask the run to end."""
        return self.wire.ask("stop", run=run, **wish)

    def manifest(self, run: str, cells: list[str], patterns: Sequence[str] = ()) -> bytes:
        """Have the box seal what these patterns (or its plan's) name in these cells; return the manifest's bytes."""
        return b"".join(self.wire.chunks("manifest", run=run, cells=cells, patterns=list(patterns)))

    def fingerprint(
        self, run: str, patterns: Sequence[str] = ()
    ) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
        """Return artifact stats by cell, and what lives and lies beside them."""
        present: dict[str, list[dict[str, Any]]] = {}
        rest: dict[str, Any] = {}
        for answer in self.wire.objects("fingerprint", run=run, patterns=list(patterns)):
            if "cell" in answer:
                present.setdefault(str(answer["cell"]), []).extend(answer["entries"])
            else:
                rest = answer
        return present, rest

    def get(self, run: str, area: str, cell: str, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""
        return self.wire.chunks("get", run=run, area=area, cell=cell, path=path, offset=offset)

    def salvageable(self, run: str, cell: str) -> list[dict[str, Any]]:
        """List every plain file in a cell's out folder."""
        return list(self.wire.objects("salvageable", run=run, cell=cell))

    def leave_note(self, path: str, name: str, text: str) -> str:
        """Leave a note on a shared disk; return what went wrong."""
        return str(self.wire.ask("leave_note", path=path, name=name, text=text)["problem"])

    def find_note(self, path: str, name: str, wait_s: float) -> dict[str, Any]:
        """Look for a note another box left: {text, disk}, the text None when it did not come in time."""
        return self.wire.ask("find_note", path=path, name=name, wait_s=wait_s)

    def drop_note(self, path: str, name: str) -> str:
        """Take a note away; one that is gone is no fault."""
        return str(self.wire.ask("drop_note", path=path, name=name)["problem"])
