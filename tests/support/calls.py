"""Record which of our functions a `lease` command calls: in the order of their first calls, and from where.

A person whose environment comes from `recorded()` leaves one record for each command that they type.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, NamedTuple, Tuple

_FOLDER = "LEASEHOLD_TEST_CALLS"

# Python imports this module at its start, in each process that inherits the environment; only `-m leasehold` records.
_RECORDER = """
import atexit, json, os, sys, threading

def _record(folder):
    first, edges, mark = {}, set(), os.sep + "leasehold" + os.sep
    place = {}

    def name(code):
        if code not in place:
            head, found, tail = code.co_filename.rpartition(mark)
            place[code] = "%s:%s" % (tail, code.co_qualname) if found and "<" not in tail else ""
        return place[code]

    def note(frame, event, _):
        if event != "call":
            return
        here = name(frame.f_code)
        if not here or here.endswith(("<module>", "<lambda>", "comp>", "genexpr>")):
            return
        first.setdefault(here, len(first))
        back = frame.f_back
        while back is not None and not name(back.f_code):
            back = back.f_back
        if back is not None:
            edges.add((name(back.f_code), here))

    def keep():
        sys.setprofile(None)
        threading.setprofile(None)
        path = os.path.join(folder, "%d.json" % os.getpid())
        with open(path + ".part", "w") as file:
            json.dump({"first": sorted(first, key=first.get), "edges": sorted(map(list, edges))}, file)
        os.replace(path + ".part", path)

    atexit.register(keep)
    threading.setprofile(note)
    sys.setprofile(note)

if os.environ.get("LEASEHOLD_TEST_CALLS") and sys.orig_argv[1:3] == ["-m", "leasehold"]:
    _record(os.environ["LEASEHOLD_TEST_CALLS"])
"""


class Calls(NamedTuple):
    """FILE:FUNCTION of each function in the order of the first calls, and the pairs of caller and callee."""

    first: List[str]
    edges: FrozenSet[Tuple[str, str]]


def recorded(folder: Path, environment: Dict[str, str]) -> Dict[str, str]:
    """Return an environment in which each `lease` leaves a record in the folder."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_RECORDER, encoding="utf-8")
    path = environment["PYTHONPATH"]
    return {**environment, "PYTHONPATH": "%s:%s" % (folder, path), _FOLDER: str(folder)}


def take(folder: Path) -> Calls:
    """Read and remove the only record in the folder."""
    (path,) = folder.glob("*.json")
    found: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return Calls(found["first"], frozenset((caller, callee) for caller, callee in found["edges"]))
