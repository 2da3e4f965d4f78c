"""Trained time of a run, and how much of it exists only in a process's memory. Durations: no clocks are compared."""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FINISHED

from .run_folder import RunFolder

_LOOK_EVERY_S = 30.0
_MOST_ENTRIES = 20000
_MOST_S = 0.2
_MAGIC = "*?["
_OFF_THE_BOX = {"uncopied_s": ("durable",), "stored_s": ("store",)}

Stretches = Dict[str, List[Tuple[float, Optional[float]]]]


class WorkClock:
    """Reads trained time from the journal and the newest checkpoint from the disk, rarely and briefly."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Optional[Callable[..., None]] = None) -> None:
        self._folder = folder
        checkpoint = plan.get("job", {}).get("checkpoint")
        self._pattern = str((checkpoint or {}).get("path", ""))
        self._looked_at = -_LOOK_EVERY_S
        self._newest: Dict[str, float] = {}

    def figures(self, events: Iterable[Dict[str, Any]], run: RunState, now_unix: float) -> Dict[str, Any]:
        """Return how much would have to be trained again: after the box's death, and after the trainer's alone."""
        events = list(events)
        spans = stretches(events)
        said: Dict[str, Any] = {
            "training": run.state
            in ("running", "stopping"),  # also a moment before the first attempt: home may leave now
            "trained_s": round(sum(trained_s(spans.get(name, []), now_unix) for name in run.cells), 1),
            "open_s": round(max(0.0, now_unix - run.opened_unix), 1),
        }
        if self._pattern:
            self._look(run)
            said["unsaved_s"] = round(self._since(self._newest, run, spans, now_unix), 1)
        for figure, kinds in _OFF_THE_BOX.items():
            copied = copies(events, kinds)
            if copied:
                said[figure] = round(sum(trained_s(spans[n], now_unix, copied.get(n, 0.0)) for n in spans), 1)
        if run.refuge:
            from .refuge_figure import refuge_figure  # most runs have none

            said["refuge"] = refuge_figure(
                run, lambda name, made_unix: trained_s(spans.get(name, []), now_unix, made_unix), now_unix
            )
        return said

    def _since(self, saved: Dict[str, float], run: RunState, spans: Stretches, now_unix: float) -> float:
        unfinished = [name for name, cell in run.cells.items() if cell.state != FINISHED]
        return sum(trained_s(spans.get(name, []), now_unix, saved.get(name, 0.0)) for name in unfinished)

    def _look(self, run: RunState) -> None:
        if time.monotonic() - self._looked_at < _LOOK_EVERY_S and not run.terminal:
            return
        self._looked_at = time.monotonic()
        for name in run.cells:
            found = newest(self._folder.out(name), self._pattern)
            if found:
                self._newest[name] = found


def stretches(events: Iterable[Dict[str, Any]]) -> Stretches:
    """List, by cell, when a trainer ran: (from, to), the last to None while it runs."""
    spans: Stretches = {}
    for event in events:
        at = float(event.get("at", event.get("t", 0.0)))
        cell = str(event.get("cell"))
        if event.get("k") == "attempt_started":
            spans.setdefault(cell, []).append((at, None))
        elif event.get("k") == "attempt_ended" and spans.get(cell) and spans[cell][-1][1] is None:
            spans[cell][-1] = (spans[cell][-1][0], at)
    return spans


def copies(events: Iterable[Dict[str, Any]], kinds: Tuple[str, ...]) -> Dict[str, float]:
    """Return, by cell, the time of the newest state copied to such a place: durable, a tier; store, objects."""
    found: Dict[str, float] = {}
    for event in events:
        kind = "durable" if event.get("k") == "durable_copied" else event.get("tier")
        if event.get("k") in ("durable_copied", "refuge_copied") and kind in kinds:
            cell = str(event.get("cell"))
            made_unix = float(event.get("made_unix") or event.get("state_unix") or 0.0)
            found[cell] = max(found.get(cell, 0.0), made_unix)
    return found


def trained_s(spans: List[Tuple[float, Optional[float]]], now_unix: float, since_unix: float = 0.0) -> float:
    """Add up how long a trainer ran after a moment; pauses between attempts do not count."""
    return sum(max(0.0, (now_unix if end is None else end) - max(start, since_unix)) for start, end in spans)


def newest(root: str, pattern: str) -> float:
    """Return the modification time of the newest file that the pattern matches, 0 when there is none."""
    literal = literal_part(pattern)
    place = os.path.join(root, literal)
    try:
        if literal == pattern:
            info = os.lstat(place)
            if not stat.S_ISDIR(info.st_mode):
                return info.st_mtime
            return _newest_below(place, "**")
        return _newest_below(place, pattern[len(literal) :].lstrip("/"))
    except OSError:  # absent, or changing meanwhile: what is not seen counts as not saved
        return 0.0


def literal_part(pattern: str) -> str:
    """Return the leading segments of a pattern without wildcards."""
    literal = []
    for part in pattern.split("/"):
        if any(char in part for char in _MAGIC):
            break
        literal.append(part)
    return "/".join(literal)


def _newest_below(root: str, pattern: str) -> float:
    from leasehold.kit.files.globbing import compile_pattern, walk  # trained time alone is asked for more often

    regex = compile_pattern(pattern)
    until = time.monotonic() + _MOST_S
    best = 0.0
    for count, found in enumerate(walk(root)):
        if regex.match(found.path) and found.is_file:
            best = max(best, found.info.st_mtime)
        if count > _MOST_ENTRIES or time.monotonic() > until:
            break
    return best
