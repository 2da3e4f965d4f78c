"""python -m tests.support.refuge_on_bad_tier RUN_FOLDER TIER DEED: the worker on a tier that goes bad and recovers.

Prints one JSON object: what the worker said before, during and after, and the newest whole state after each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from leasehold.caretaker.refuge.orders import RefugeFiles
from leasehold.caretaker.refuge.worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import newest_whole

_BYTES = 6 << 20


def save(folder: RunFolder, step: int) -> None:
    """Save a state as a trainer does: under a temporary name, renamed."""
    place = Path(folder.out("main")) / "ckpt"
    place.mkdir(parents=True, exist_ok=True)
    data = json.dumps({"step": step, "pad": os.urandom(_BYTES // 2).hex()}).encode()
    (place / ("step-%d.json.tmp" % step)).write_bytes(data)
    os.replace(str(place / ("step-%d.json.tmp" % step)), str(place / ("step-%d.json" % step)))


def main(path: str, tier: str, deed: str) -> int:
    """Live through it."""
    folder = RunFolder(path)
    files = RefugeFiles(folder)
    os.makedirs(files.path, exist_ok=True)
    write_json(files.order, {"cells": {"main": {"attempt": 1, "alive": False, "hurry": True}}, "box": "gpu1"})
    now = [time.monotonic()]
    worker = Worker(folder, files, lambda: now[0])
    seen: List[Tuple[List[str], Optional[int]]] = []

    def step(number: int) -> None:
        before = len(_said(files))
        save(folder, number)
        worker.turn()
        now[0] += 3600.0  # what failed is due again
        kinds = ["%s %s" % (event["kind"], event.get("class", "")) for event in _said(files)[before:]]
        seen.append(([kind.strip() for kind in kinds], _newest(folder, tier)))

    step(1)
    step(2)
    spoil, mend = DEEDS[deed]
    spoil(Path(tier))
    step(3)
    step(4)
    mend(Path(tier))
    step(5)
    left = sorted(os.listdir(os.path.join(tier, ".leasehold-parts")))
    print(json.dumps({"seen": seen, "parts": left}))
    return 0


def _said(files: RefugeFiles) -> List[Dict[str, Any]]:
    return list((read_json(files.said) or {}).get("events") or [])


def _newest(folder: RunFolder, tier: str) -> Optional[int]:
    found = newest_whole(FolderPlace(tier), folder.run, "main")
    return found.state.step if found else None


def _fill(tier: Path) -> None:
    with open(str(tier / "filler"), "wb") as file:
        try:
            while True:
                file.write(b"\0" * (1 << 18))
                file.flush()
        except OSError:
            return


def _fill_names(tier: Path) -> None:
    (tier / "names").mkdir()
    for number in range(100000):
        try:
            (tier / "names" / str(number)).touch()
        except OSError:
            return


def _mount(options: str) -> Callable[[Path], None]:
    return lambda tier: _do("mount", "-o", options, str(tier))


def _delete(*names: str) -> Callable[[Path], None]:
    return lambda tier: _do("rm", "-rf", *[str(tier / name) for name in names])


def _do(*words: str) -> None:
    subprocess.run(words, check=True)


DEEDS: Dict[str, Tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "nothing": (lambda tier: None, lambda tier: None),
    "full": (_fill, _delete("filler")),
    "no names left": (_fill_names, _delete("names")),
    "read-only": (_mount("remount,ro"), _mount("remount,rw")),
}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
