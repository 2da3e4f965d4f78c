"""A run on a small disk of its own: a tmpfs in a mount namespace, whose run folder is copied out before it vanishes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from leasehold.kit.files import journal
from tests.support.front import LEASE, Front, Tmpfs

_PATIENCE_S = 120.0
_NO_AUDIT = ("--skip-gate", "audit", "--because", "the box itself shall say it")
# The copy leaves out what fills the disk; only what the caretaker wrote is looked at, once it has gone: its last
# status comes after the journal's last line, which is what ends the command.
_RUN_AND_KEEP = (
    'root=$1 keep=$2; shift 2; "$@"; code=$?; '
    'for run in "$root"/active/*; do flock -w 60 "$run/caretaker.lock" true 2>/dev/null; '
    "for name in journal.jsonl status.json cells; do "
    '[ -e "$run/$name" ] && cp -r "$run/$name" "$keep/"; done; done; exit $code'
)


class Lived(NamedTuple):
    """How `lease run` ended, what it said, and what lies in the run's folder."""

    code: int
    said: str
    keep: Path

    def events(self, kind: str = "") -> List[Dict[str, Any]]:
        """Read the journal."""
        found, _ = journal.read_from(str(self.keep / "journal.jsonl"), 0)
        return [event for event in found if not kind or event["k"] == kind]

    def status(self) -> Dict[str, Any]:
        """Read the last status.json."""
        return dict(json.loads((self.keep / "status.json").read_text()))


def run_on(person: Front, options: str) -> Lived:
    """Live a whole run with the box's root on a tmpfs of these options; the audit would not let it begin."""
    root, keep = person.folder / "disk", person.folder / "kept"
    root.mkdir()
    keep.mkdir()
    disk = Tmpfs(root, options)
    lease = [*LEASE, "run", "--on", "local", "--root", str(root), *_NO_AUDIT]
    asked = [*disk.words(), "/bin/sh", "-c", _RUN_AND_KEEP, "sh", str(root), str(keep), *lease]
    done = subprocess.run(
        asked,
        cwd=str(person.project),
        env=person.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE_S,
        check=False,
    )
    return Lived(done.returncode, done.stdout.decode("utf-8", "replace"), keep)
