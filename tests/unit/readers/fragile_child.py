"""The confined reader, except that a file called evil-WHAT makes it misbehave so. Linked as confine_child.py."""

from __future__ import annotations

import io
import os
import runpy
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
READER = os.path.join(HERE, "..", "..", "..", "src", "leasehold", "lifecycle", "confine_child.py")

if __name__ == "__main__":
    question = sys.stdin.read()
    sys.stdin = io.StringIO(question)
    script = os.path.join(HERE, "misbehaving.py") if "evil-" in question else os.path.realpath(READER)
    sys.argv = [script, question.partition("evil-")[2].partition(".")[0]]
    runpy.run_path(script, run_name="__main__")
