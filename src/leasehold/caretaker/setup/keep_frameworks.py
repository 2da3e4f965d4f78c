"""Keep a rented image's frameworks: record them, constrain installers, and filter what would replace them.

Three nets, each visible in the log: requirements files named in `setup` are read through copies without those
lines; PIP_CONSTRAINT and UV_OVERRIDE pin the present versions for every other route; and in every case
the versions are compared afterwards.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, Dict, List, NamedTuple

from leasehold.kit.run.shell_installs import point_elsewhere

from .env_probe import FRAMEWORKS
from .requirements import Copies, Keep

_DEFAULT_FILE = "requirements.txt"


class Prepared(NamedTuple):
    """A prepared set-up: the text to run, the variables it gains, and the lines left out of each file."""

    setup: str
    environ: Dict[str, str]
    left_out: List[str]
    alias: str  # an alias without spaces for our folder, to be removed afterwards; or nothing


def prepare(setup: str, present: Dict[str, Any], work: str, into: str, environ: Dict[str, str]) -> Prepared:
    """Make a set-up keep what is present; with nothing to keep it stays unchanged."""
    own = os.path.join(work, _DEFAULT_FILE)
    if "torch" not in present:
        return Prepared(setup, {"LEASE_REQUIREMENTS": own} if os.path.exists(own) else {}, [], "")
    shutil.rmtree(into, ignore_errors=True)  # of a set-up that was killed halfway
    os.makedirs(into)
    copies = Copies(Keep(frozenset(present), frozenset(FRAMEWORKS) - frozenset(present)), work, into)
    text = point_elsewhere(setup, work, lambda path, constraint: copies.of(path, constraint))
    left_out = [one.say() for one in copies.left_out]
    gained = {"LEASE_REQUIREMENTS": copies.of(own)} if os.path.exists(own) else {}
    left_out += ["of $LEASE_REQUIREMENTS: %s" % one.say() for one in copies.left_out[len(left_out) :]]
    file = os.path.join(into, "kept.txt")
    with open(file, "w", encoding="utf-8") as out:
        out.write("".join(line + "\n" for line in constraint_lines(present)))
    alias = _without_spaces(into)
    kept = os.path.join(alias or into, "kept.txt")
    for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_OVERRIDE"):  # lists separated by blanks; the image may have one
        gained[name] = " ".join(filter(None, [environ.get(name, ""), kept]))
    return Prepared(text, gained, left_out, alias)


def constraint_lines(present: Dict[str, Any]) -> List[str]:
    """Pin each framework that pip knows to its present version; what pip does not know cannot be kept."""
    return ["%s==%s" % (name, facts["version"]) for name, facts in sorted(present.items()) if facts.get("pip")]


def _without_spaces(folder: str) -> str:
    """Return an alias for a path with spaces: pip and uv split these variables at blanks."""
    if not any(char.isspace() for char in folder):
        return ""
    alias = os.path.join(tempfile.mkdtemp(prefix="leasehold-", dir="/tmp"), "setup")
    os.symlink(folder, alias)
    return alias


def drop_alias(alias: str) -> None:
    """Remove the alias."""
    if alias:
        os.unlink(alias)
        os.rmdir(os.path.dirname(alias))
