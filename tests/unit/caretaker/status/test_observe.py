"""A look at a run: what its journal says and who cares for it belong together."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any, Dict, List

from leasehold.caretaker.process.locks import try_lock
from leasehold.caretaker.status.observe import observe
from tests.unit.caretaker.run_folders import make

OPENED = {"n": 1, "t": 1001.0, "k": "run_opened", "cells": ["main"]}


def test_a_caretaker_that_ends_its_run_during_the_look_did_not_leave_it(tmp_path: Path) -> None:
    folder = make(tmp_path, ["a"])
    lock = try_lock(folder.caretaker_lock)
    assert lock is not None
    os.mkfifo(folder.journal)  # the look goes on only when we close it
    seen: List[Dict[str, Any]] = []
    looking = threading.Thread(target=lambda: seen.append(observe(folder)))
    looking.start()
    writer = -1
    while writer < 0 and looking.is_alive():
        with contextlib.suppress(OSError):  # nobody reads it yet
            writer = os.open(folder.journal, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writer, json.dumps(OPENED).encode() + b"\n")
    os.close(lock)
    os.close(writer)
    looking.join()
    assert [(one["state"], one["caretaker_alive"]) for one in seen] == [("running", True)]
