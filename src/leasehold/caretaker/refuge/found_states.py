"""Find the checkpoints below $LEASE_OUT: which files are one state, and whether a state is whole.

A file that says where it ends, or a folder with its writer's end mark, is whole once two looks show the same. Where
the format does not say, it must have been quiet for longer, or its writer must have gone on to the next state.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.globbing import Found, compile_pattern, walk
from leasehold.kit.files.newest_checkpoint import NO_END_MARK, PASSING, UNKNOWN, why_not_whole

QUIET_S = 30.0
MOST_FILES = 100_000
_STEP = re.compile(r"(?:^|[^a-z])(?:global_?step|step|checkpoint|iter(?:ation)?|ckpt|it)[-_=]?(\d{1,12})(?!\d)", re.I)
_NUMBERED = re.compile(r"(?:^|[-_.=])(?:epoch|global_?step|step|checkpoint|iter(?:ation)?|ckpt)[-_=]?\d", re.I)
_OURS = re.compile(r"(?:index|sessions)\.json\Z|save-request(?:\.done)?\Z|lock\Z|damaged-")
_MAGIC = "*?["

Row = Tuple[str, int, int, int]  # path below the state's root, bytes, mtime_ns, inode


class Candidate(NamedTuple):
    """One checkpoint as a look at the folder showed it."""

    name: str  # its path below $LEASE_OUT
    root: str  # the folder of its files below $LEASE_OUT
    rows: Tuple[Row, ...]
    renamed: bool = False  # each file was given its name, or another property, after its last byte

    @property
    def mark(self) -> str:
        """Return what changes when any of its files does."""
        return digest([self.name, self.root, [list(row) for row in self.rows]])

    @property
    def made_ns(self) -> int:
        """Return when it was last written to."""
        return max(row[2] for row in self.rows)

    @property
    def bytes(self) -> int:
        """Return its size."""
        return sum(row[1] for row in self.rows)

    @property
    def step(self) -> Optional[int]:
        """Return the step that its name states; an epoch is none."""
        found = _STEP.findall(os.path.basename(self.name))
        return int(found[-1]) if found else None

    @property
    def kind(self) -> str:
        """Return what kind of state it is, for the manifest."""
        return "file" if len(self.rows) == 1 and os.path.join(self.root, self.rows[0][0]) == self.name else "folder"

    @property
    def order(self) -> Tuple[int, List[Tuple[int, str]]]:
        """Return its age: the last write; of equals, the higher number in the name is newer."""
        parts = [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", self.name)]
        return self.made_ns, parts


def candidates(root: str, pattern: str) -> List[Candidate]:
    """Return every checkpoint that matches, newest first; those that a writer names as unfinished are left out."""
    groups: Dict[str, List[Found]] = {}
    for count, found in enumerate(_below(root, pattern)):
        if count > MOST_FILES:
            raise OSError("more than %d files match %s" % (MOST_FILES, pattern))
        name = _state_of(found.path, pattern)
        passing = any(PASSING.search(part) for part in found.path.split("/"))
        if name is not None and found.is_file and not passing:
            groups.setdefault(name, []).append(found)
    states = [one for name, files in groups.items() for one in _split(name, files)]
    return sorted(states, key=lambda one: one.order, reverse=True)


def why_not(out: str, state: Candidate, older: Optional[Candidate], left: bool, now: float) -> str:
    """Return why a state may not be whole; empty if it is. `left`: its writer has ended, or gone on to a newer one."""
    if not any(row[1] for row in state.rows):
        return "it is empty"
    files = [("" if state.kind == "file" else row[0], row[2]) for row in state.rows]
    before = (older.name, [(row[0], row[2]) for row in older.rows]) if older and older.kind == "folder" else None
    try:
        why = why_not_whole(out, state.name, files, before)
    except (OSError, ValueError) as error:
        return str(error)
    if why in (UNKNOWN, NO_END_MARK):
        quiet = not -QUIET_S < now - state.made_ns / 1e9 < QUIET_S
        return "" if left or quiet or (why == UNKNOWN and state.renamed) else why
    return why


def _below(root: str, pattern: str) -> Iterator[Found]:
    """Yield what may match, walking only the folders below the part of the pattern that has no wildcard."""
    literal = []
    for part in pattern.split("/"):
        if any(char in part for char in _MAGIC):
            break
        literal.append(part)
    start = "/".join(literal)
    place = os.path.join(root, start) if start else root
    if os.path.islink(place):
        return
    if start and os.path.isfile(place):
        yield Found(start, os.lstat(place))
    elif os.path.isdir(place):
        for found in walk(place):
            yield Found(start + "/" + found.path if start else found.path, found.info)


def _state_of(path: str, pattern: str) -> Optional[str]:
    """Return the shortest leading part of a path that matches: a file, or the folder that is one state."""
    regex = compile_pattern(pattern)
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        if regex.match("/".join(parts[:depth])):
            return "/".join(parts[:depth])
    return None


def _split(name: str, files: List[Found]) -> Iterator[Candidate]:
    """Yield the states of what matched: a file; a folder; or each numbered child of a folder of checkpoints."""
    if len(files) == 1 and files[0].path == name:
        yield _candidate(name, os.path.dirname(name), files)
        return
    children: Dict[str, List[Found]] = {}
    for one in files:
        children.setdefault(one.path[len(name) + 1 :].split("/")[0], []).append(one)
    numbered = {child: listed for child, listed in children.items() if _NUMBERED.search(child)}
    if numbered and not _OURS.match(os.path.basename(name)) and _is_shelf(children, numbered):
        for child, listed in numbered.items():
            whole = name + "/" + child
            root = name if len(listed) == 1 and listed[0].path == whole else whole
            yield _candidate(whole, root, listed)
        return
    yield _candidate(name, name, files)


def _is_shelf(children: Dict[str, List[Found]], numbered: Dict[str, List[Found]]) -> bool:
    """Return whether a folder holds several states, and is not one state with numbered parts."""
    rest = [child for child in children if child not in numbered and not _OURS.match(child)]
    return not any(child in _END_MARKS for child in rest)


_END_MARKS = ("trainer_state.json", ".metadata", "_CHECKPOINT_METADATA", "leasehold.json")


def _candidate(name: str, root: str, files: List[Found]) -> Candidate:
    skip = len(root) + 1 if root else 0
    rows = [(one.path[skip:], one.info.st_size, one.info.st_mtime_ns, one.info.st_ino) for one in files]
    return Candidate(name, root, tuple(sorted(rows)), all(one.info.st_ctime_ns > one.info.st_mtime_ns for one in files))
