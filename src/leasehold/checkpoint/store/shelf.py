"""The folder of checkpoints: list them, find the best, decide which may be deleted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.atomic import fsync_folder, read_json, write_json
from leasehold.kit.files.checkpoint_file import SUFFIX, Damaged, parse_header

SHARDED = ".dcp"
NATIVE = ".saved"  # a folder that a framework wrote
_ENDS = "|".join(map(re.escape, (SUFFIX, SHARDED, NATIVE)))
_NAME = re.compile(r"step-(\d{1,18})(%s)\Z" % _ENDS)
_TEMP = re.compile(r"\.(step-\d+(?:%s))(\.before)?\.\d+\.tmp\Z" % _ENDS)
_DAMAGED = "damaged-"


class Keep(NamedTuple):
    """What to keep: this many of the newest, and this many of the best by a metric (which also makes a save due)."""

    last: int = 2
    metric: str = ""
    mode: str = "min"
    top: int = 1

    def better(self, new: float, old: Optional[float]) -> bool:
        """Return whether a value of the metric beats the best so far; a value that is not a number beats nothing."""
        if new != new:
            return False
        return old is None or (new < old if self.mode == "min" else new > old)


class Kept(NamedTuple):
    """A checkpoint in the folder."""

    step: int
    path: str


class Shelf:
    """Lists, records and prunes. `index.json` is for people and programs; the files themselves are the truth."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.index = os.path.join(folder, "index.json")

    def path(self, step: int, end: str = SUFFIX) -> str:
        """Return the path for the checkpoint of a step."""
        return os.path.join(self.folder, "step-%010d%s" % (step, end))

    def all(self) -> List[Kept]:
        """List the checkpoints, oldest first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                match = _NAME.match(name)
                if match:
                    found.append(Kept(int(match.group(1)), os.path.join(self.folder, name)))
        return sorted(found)

    def sweep(self) -> None:
        """Remove what a killed writer left half done; what it had moved aside for its successor comes back."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                match, path = _TEMP.match(name), os.path.join(self.folder, name)
                if match and match.group(2) and not os.path.exists(os.path.join(self.folder, match.group(1))):
                    os.replace(path, os.path.join(self.folder, match.group(1)))
                elif match:
                    _remove(path)

    def set_aside(self, kept: Kept) -> str:
        """Rename a damaged checkpoint, so that it is neither used nor counted; the next good save deletes it."""
        place = os.path.join(self.folder, _DAMAGED + os.path.basename(kept.path))
        _remove(place)
        os.replace(kept.path, place)
        return place

    def note(self, step: int, facts: Dict[str, Any]) -> None:
        """Write a checkpoint into the index; deleted ones leave it."""
        known = self.facts()
        known[str(step)] = facts
        there = {str(kept.step) for kept in self.all()}
        listed = {key: value for key, value in known.items() if key in there}
        write_json(self.index, {"schema": "leasehold.checkpoints/1", "checkpoints": listed}, durable=False)

    def facts(self) -> Dict[str, Any]:
        """Return the index entries by step."""
        known = (read_json(self.index) or {}).get("checkpoints")
        return dict(known) if isinstance(known, dict) else {}

    def prune(self, keep: Keep) -> List[int]:
        """Delete what need not stay: never the newest, never the best; damaged ones go too."""
        there = self.all()
        stay = {kept.step for kept in there[-max(1, keep.last) :]} | set(self.best(keep)[: max(1, keep.top)])
        gone = [kept for kept in there if kept.step not in stay]
        for kept in gone:
            _remove(kept.path)
        for name in os.listdir(self.folder):
            if name.startswith(_DAMAGED):
                _remove(os.path.join(self.folder, name))
        return [kept.step for kept in gone]

    def best(self, keep: Keep) -> List[int]:
        """Return the steps that have the metric, best first."""
        return [step for step, _ in self._ranked(keep)]

    def bar(self, keep: Keep) -> Optional[float]:
        """Return the value that a new checkpoint must beat to be among the best; None while there is room."""
        ranked = self._ranked(keep)
        return ranked[keep.top - 1][1] if len(ranked) >= keep.top else None

    def _ranked(self, keep: Keep) -> List[Tuple[int, float]]:
        if not keep.metric:
            return []
        sign = 1 if keep.mode == "min" else -1
        known, valued = self.facts(), []
        for kept in self.all():
            listed = known.get(str(kept.step))
            metrics = (listed.get("metrics") or {}) if isinstance(listed, dict) else _metrics_inside(kept.path)
            value = metrics.get(keep.metric)
            if isinstance(value, (int, float)) and value == value:
                valued.append((sign * value, -kept.step))
        return [(-step, sign * value) for value, step in sorted(valued)]


def _metrics_inside(path: str) -> Dict[str, Any]:
    """Read the metrics from a checkpoint that the index does not have: a kill came between the two writes."""
    try:
        with open(path, "rb") as file:
            found = json.loads(parse_header(file.fileno()).facts.get("metrics", "{}"))
    except (OSError, ValueError, Damaged):
        return {}
    return found if isinstance(found, dict) else {}


def temp_name(path: str) -> str:
    """Name the temporary sibling that a checkpoint is written to first."""
    return os.path.join(os.path.dirname(path), ".%s.%d.tmp" % (os.path.basename(path), os.getpid()))


def publish_folder(temp: str, path: str) -> None:
    """Rename a written folder into place; one of the same step, which a rename cannot replace, is moved aside first."""
    aside = temp_name(path + ".before")
    if os.path.exists(path):
        os.replace(path, aside)
    os.replace(temp, path)
    fsync_folder(os.path.dirname(path) or ".")
    shutil.rmtree(aside, ignore_errors=True)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
