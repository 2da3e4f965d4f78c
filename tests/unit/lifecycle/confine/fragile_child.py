"""The confined reader, except that a file called evil-WHAT makes it misbehave so. Linked as reader_child.py."""

from __future__ import annotations

import itertools
import json
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "..", "src"))

from leasehold.lifecycle.confine import reader_child, walls  # noqa: E402, F401 - the forking server asks for walls here


def attend(request: dict[str, Any], behind: Sequence[str] = ()) -> None:
    paths = request.get("paths") or [request["path"]]
    before = list(itertools.takewhile(lambda path: "evil-" not in path, paths))
    if before:
        reader_child.attend({**request, "paths": before} if "paths" in request else request, behind)
    if len(before) == len(paths):
        return
    script = os.path.join(HERE, "misbehaving.py")
    sys.argv = [script, paths[len(before)].partition("evil-")[2].partition(".")[0]]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    attend(json.load(sys.stdin))
