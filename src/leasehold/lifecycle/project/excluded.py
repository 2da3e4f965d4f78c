"""Leasehold's own folders inside a project, the home and the results: never sent with its code, whatever git says."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import UserError

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home


def own_places(home: Home, project: Path, results: Path) -> tuple[Path, ...]:
    """Return our folders; refuse a home that is the project itself, since it cannot be separated from the code."""
    if os.path.realpath(home.path) == os.path.realpath(project):
        raise UserError(
            "home.is_project",
            f"LEASEHOLD_HOME is the project's own folder, {project}",
            hint="give it a folder of its own: export LEASEHOLD_HOME=~/.local/share/leasehold",
        )
    return home.path, results


def below(project: Path, places: Sequence[Path]) -> tuple[str, ...]:
    """Return the places that lie inside the project, as prefixes of its files' paths."""
    root = os.path.realpath(project)
    inside = [os.path.relpath(os.path.realpath(place), root).replace(os.sep, "/") for place in places]
    return tuple(f"{path}/" for path in inside if path != "." and path.split("/")[0] != "..")


def say_home_stays(home: Home, project: Path, left_out: Collection[str]) -> str:
    """Format a notice that the home lies in the project and is not sent; empty where it is already ignored."""
    found = [prefix for prefix in below(project, [home.path]) if prefix in left_out]
    if not found:
        return ""
    said = f"the leasehold home lies in this project ({found[0]}); it stays here and is not sent with the code"
    tracked = _tracked(project, found[0])
    if tracked:
        files = "1 file" if tracked == 1 else f"{tracked} files"
        untrack = f"git rm -r --cached {shlex.quote(found[0])}"
        return f"{said}. Git tracks {files} of it, and its ledger names your boxes and runs: {untrack}"
    return f"{said}; a line {found[0]} in .gitignore or .leaseignore ends this remark"


def _tracked(project: Path, prefix: str) -> int:
    asked = ["git", "-C", str(project), "ls-files", "-z", "--cached", "--", f":(literal){prefix}"]
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (FileNotFoundError, PermissionError):
        return 0
    return done.stdout.count(b"\0")
