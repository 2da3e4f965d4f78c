"""Find the newest whole checkpoint below a folder: a file with its end, or a folder with its writer's end mark.

A file is whole if its format states where it ends and it ends there. A folder is whole if it has the file that its
writer writes last, lacks no file that the one before it has, and no file in it is truncated. A checkpoint that is not
known to be whole is never used.
"""

from __future__ import annotations

import json
import os
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .globbing import compile_pattern, walk

UNKNOWN = "its format does not state where it ends"
_MOST_TRIED = 20
_MOST_READ = 16 << 20  # of a pickle or a JSON file, to its end
_MOST_HEADER = 100_000_000  # the limit of the safetensors library
LAST_WRITTEN = re.compile(  # Hugging Face, torch DCP, orbax, our own, Accelerate
    r"(?:trainer_state\.json|\.metadata|_CHECKPOINT_METADATA|leasehold\.json|random_states_\d+\.pkl)\Z"
)
PASSING = re.compile(r"(?:^|[._-])(?:tmp|temp|partial|incomplete)(?:[._-]|\Z)", re.I)

_Files = List[Tuple[str, int]]  # names below a state, and when each was written
_State = Tuple[str, _Files]
NO_END_MARK = "the folder has no end mark, such as trainer_state.json"


class Found(NamedTuple):
    """The result for one pattern: a path below the root, and the newer ones that were skipped, with the reason."""

    path: str
    passed_over: Tuple[Tuple[str, str], ...] = ()


def variable_of(place: int) -> str:
    """Name the variable that holds the result for a pattern, by its place among a job's patterns."""
    return "LEASE_LATEST" if place == 0 else "LEASE_LATEST_%d" % (place + 1)


def variables(root: str, patterns: Sequence[str]) -> Tuple[Dict[str, str], List[str]]:
    """Look for each pattern; return the variables with full paths (empty for none), and lines for the log."""
    values, said = {}, []
    for place, pattern in enumerate(patterns):
        found = newest(root, pattern)
        values[variable_of(place)] = os.path.join(root, found.path) if found.path else ""
        said += ["%s was passed over: %s" % one for one in found.passed_over]
        said.append("the newest whole %s is %s" % (pattern, found.path) if found.path else "no whole %s yet" % pattern)
    return values, said


def newest(root: str, pattern: str) -> Found:
    """Return the newest whole checkpoint whose path matches."""
    states = sorted_states(_states(root, pattern))
    passed: List[Tuple[str, str]] = []
    for place, (path, files) in enumerate(states[:_MOST_TRIED]):
        why = why_not_whole(root, path, files, states[place + 1] if place + 1 < len(states) else None)
        if not why:
            return Found(path, tuple(passed))
        passed.append((path, why))
    return Found("", tuple(passed))


def sorted_states(states: Dict[str, _Files]) -> List[_State]:
    """Sort states, the newest first."""
    return sorted(states.items(), key=_age, reverse=True)


def _states(root: str, pattern: str) -> Dict[str, _Files]:
    """Map each file or folder that matches to its files."""
    regex = compile_pattern(pattern)
    states: Dict[str, _Files] = {}
    if not os.path.isdir(root):
        return states
    for found in walk(root):
        parts = found.path.split("/")
        if not found.is_file or any(PASSING.search(part) for part in parts):
            continue
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if regex.match(path):
                states.setdefault(path, []).append(("/".join(parts[depth:]), found.info.st_mtime_ns))
                break
    return states


def _age(state: _State) -> Tuple[int, List[Tuple[int, str]]]:
    """Return the time of the last write; of equals, the higher number in the name wins."""
    path, files = state
    parts = [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]
    return max(written for _, written in files), parts


def why_not_whole(root: str, path: str, files: _Files, before: Optional[_State]) -> str:
    """Return why a state cannot be used; empty if it is whole. Files are named below its path, one alone by no name."""
    place = os.path.join(root, path)
    names = sorted(name for name, _ in files)
    try:
        return why_unended(place) if names == [""] else _unclosed(names, before) or _cut_short(place, names)
    except OSError as error:
        return str(error)


def _unclosed(names: List[str], before: Optional[_State]) -> str:
    if not any(LAST_WRITTEN.match(name) for name in names):
        return NO_END_MARK
    there = {re.sub(r"\d+", "0", name) for name in names}
    lacks = [name for name, _ in before[1] if re.sub(r"\d+", "0", name) not in there] if before else []
    return "%s, which %s has, is not there" % (lacks[0], before[0]) if lacks and before else ""


def _cut_short(place: str, names: List[str]) -> str:
    for name in names:
        why = why_unended(os.path.join(place, name))
        if why not in ("", UNKNOWN):
            return "%s: %s" % (name, why)
    return ""


def why_unended(path: str) -> str:
    """Return why a file is not known to be whole; empty if it is."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        return "it is empty"
    length = int.from_bytes(head[:8], "little")
    if head.startswith(b"PK\x03\x04"):
        return _zip(path, size)
    if path.endswith(".safetensors") or (head[8:9] == b"{" and length < _MOST_HEADER):
        return _safetensors(path, size, length)
    if head.startswith(b"\x80"):
        return _pickle(path, size)
    return _json(path, size) if path.endswith(".json") else UNKNOWN


def _zip(path: str, size: int) -> str:
    """Check a zip: its directory is at its end, and names an earlier place for each entry."""
    import zipfile  # imported here: few trainers are started with a checkpoint, and the keeper stays small

    try:
        with zipfile.ZipFile(path) as archive:
            ends = [entry.header_offset + entry.compress_size for entry in archive.infolist()]
            return "" if ends and max(ends) <= archive.start_dir <= size else "its directory names bytes it has not"
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return "it is cut short: its directory, which is written last, is not there"


def _safetensors(path: str, size: int, length: int) -> str:
    if length > min(size - 8, _MOST_HEADER):
        return "it has %d bytes, its header claims %d" % (size, length)
    try:
        with open(path, "rb") as file:
            file.seek(8)
            header = json.loads(file.read(length).decode("utf-8"))
        ends = [int(one["data_offsets"][1]) for name, one in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return "its header cannot be read"
    wanted = 8 + length + max(ends or [0])
    return "" if size == wanted else "it has %d bytes, its header accounts for %d" % (size, wanted)


def _pickle(path: str, size: int) -> str:
    """Check a pickle, which ends with a full stop; a short one is walked to it, never loaded."""
    import pickletools  # as above

    with open(path, "rb") as file:
        if size > _MOST_READ:
            file.seek(-1, os.SEEK_END)
            return "" if file.read(1) == b"." else "it is cut short"
        try:
            for _ in pickletools.genops(file):
                pass
        except (ValueError, IndexError, KeyError, OverflowError):
            return "it is cut short"
        return "" if file.tell() == size else UNKNOWN  # torch.save before 1.6 appends plain numbers


def _json(path: str, size: int) -> str:
    if size > _MOST_READ:
        return UNKNOWN
    try:
        with open(path, "rb") as file:
            json.loads(file.read().decode("utf-8"))
    except (ValueError, RecursionError):
        return "it is not complete JSON"
    return ""
