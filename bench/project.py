"""A small training project, as a user would have it: twenty files in a git repository, one of which changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

_JOB = """name: bench
run: python3 train.py
artifacts:
  result.json: json
"""
# The first act is to write down when it began; the rest lets a launcher see a line and a result.
_TRAIN = """import time
began = time.time()
import os
from pathlib import Path
out = Path(os.environ["LEASE_OUT"])
(out / "first").write_text(repr(began))
from settings import ROUND
print("round", ROUND, flush=True)
time.sleep(0.4)
(out / "result.json").write_text('{"round": %d}' % ROUND)
"""


class Project:
    """The project's folder and which version of its code lies there."""

    def __init__(self, folder: Path) -> None:
        """Write the files and make them a repository."""
        self.folder = folder
        self.round = 0
        package = folder / "model"
        package.mkdir(parents=True)
        (folder / "lease.yaml").write_text(_JOB)
        (folder / "train.py").write_text(_TRAIN)
        (folder / ".gitignore").write_text("__pycache__/\nlease-results/\n")
        for number in range(16):
            body = f"def layer_{number}(x):\n    return [value * {number} for value in x]\n\n\n"
            (package / f"layer_{number}.py").write_text(body * 40)
        self.change()
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)

    def change(self) -> int:
        """Change one file, as between two experiments; return the new version's number."""
        self.round += 1
        # Each has a size of its own: by hand, versions of one second and one size share a stale .pyc on the box.
        (self.folder / "settings.py").write_text(f"ROUND = {self.round}  # {'.' * self.round}\n")
        return self.round
