"""Keys below a place: where the claims, states and pointers of a run lie."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from leasehold.kit.files.paths import check_name, check_relative

ROOT = "leasehold/refuge/"
HIGHEST_EPOCH = 999999
_ID = re.compile(r"\d{12}-[0-9a-f]{12}\Z")
_NUMBERED = re.compile(r"(?:newest-)?(\d{6})\.json\Z")
_MANIFEST = re.compile(r"(\d{12}-[0-9a-f]{12})\.json\Z")


def run_prefix(run: str) -> str:
    """Return the prefix of everything of a run."""
    return "%s%s/" % (ROOT, check_name(run, "run"))


def epochs_prefix(run: str) -> str:
    """Return the prefix of a run's claims."""
    return run_prefix(run) + "epochs/"


def epoch_key(run: str, epoch: int) -> str:
    """Return the key of a claim."""
    return "%s%s.json" % (epochs_prefix(run), _six(epoch))


def cells_prefix(run: str) -> str:
    """Return the prefix of a run's cells, apart from the claims, so that no name of a cell collides with them."""
    return run_prefix(run) + "cells/"


def cell_prefix(run: str, cell: str) -> str:
    """Return the prefix of everything of a cell."""
    return "%s%s/" % (cells_prefix(run), check_name(cell, "cell"))


def states_prefix(run: str, cell: str) -> str:
    """Return the prefix of a cell's states: their manifests and files."""
    return cell_prefix(run, cell) + "states/"


def state_key(run: str, cell: str, state: str) -> str:
    """Return the key of a state's manifest."""
    return "%s%s.json" % (states_prefix(run, cell), check_id(state))


def files_prefix(run: str, cell: str, state: str) -> str:
    """Return the prefix of a state's files."""
    return "%s%s/" % (states_prefix(run, cell), check_id(state))


def file_key(run: str, cell: str, state: str, path: str) -> str:
    """Return the key of one file of a state."""
    return files_prefix(run, cell, state) + check_relative(path)


def pointer_key(run: str, cell: str, epoch: int) -> str:
    """Return the key of the pointer to the newest state of an epoch."""
    return "%snewest-%s.json" % (cell_prefix(run, cell), _six(epoch))


def pins_key(run: str) -> str:
    """Return the key of the list of states that a person pinned."""
    return run_prefix(run) + "pins.json"


def state_id(number: int, manifest_sha256: str) -> str:
    """Return a state's name: its step or place in the sequence, and its manifest's hash."""
    return "%012d-%s" % (min(max(number, 0), 10**12 - 1), manifest_sha256[:12])


def check_id(state: str) -> str:
    """Return the name of a state if it is one."""
    if not _ID.match(state):
        raise ValueError("state %r: a state is named like 000000001200-0123456789ab" % state)
    return state


def number_of(state: str) -> int:
    """Return the step, or place in the sequence, in a state's name."""
    return int(check_id(state)[:12])


def epoch_of(key: str) -> Optional[int]:
    """Return the epoch that a claim's or pointer's key names."""
    found = _NUMBERED.match(key.rpartition("/")[2])
    return int(found.group(1)) if found else None


def split_state_key(run: str, cell: str, key: str) -> Optional[Tuple[str, str]]:
    """Return (state, path) of a key below a cell's states, the path empty for the manifest; None for a stranger."""
    prefix = states_prefix(run, cell)
    if not key.startswith(prefix):
        return None
    head, slash, path = key[len(prefix) :].partition("/")
    if not slash:
        found = _MANIFEST.match(head)
        return (found.group(1), "") if found else None
    return (head, path) if _ID.match(head) else None


def _six(epoch: int) -> str:
    if not 1 <= epoch <= HIGHEST_EPOCH:
        raise ValueError("epoch %r: an epoch is a number from 1 to %d" % (epoch, HIGHEST_EPOCH))
    return "%06d" % epoch
