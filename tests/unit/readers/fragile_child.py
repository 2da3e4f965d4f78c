"""The confined reader, except that a file called evil-WHAT makes it misbehave so. Linked as confine_child.py."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Sequence

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "src"))

from leasehold.lifecycle import confine_child  # noqa: E402
from leasehold.lifecycle import confine_walls as walls  # noqa: E402, F401 - the forking server asks for it here


def attend(request: dict[str, str], behind: Sequence[str] = ()) -> None:
    if "evil-" not in request["path"]:
        confine_child.attend(request, behind)
        return
    script = os.path.join(HERE, "misbehaving.py")
    sys.argv = [script, request["path"].partition("evil-")[2].partition(".")[0]]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    attend(json.load(sys.stdin))
