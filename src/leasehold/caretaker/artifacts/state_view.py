"""Choose the newest whole state of each cell and pin it, so that it can be sent whatever the trainer does meanwhile."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.checkpoint_states import State, newest_whole, states, step_of
from leasehold.kit.files.globbing import Found
from leasehold.kit.files.paths import UnsafePath, check_relative

from .stable_view import Left, StableView

_CANDIDATES = 3  # the newest may be half written, and the one before it may vanish
_TRIES = 3

Listed = Tuple[str, str, int, int]  # cell, path, bytes, mtime_ns: as home has begun to fetch it


class Told(NamedTuple):
    """What home says of states: the files that it has begun to fetch, and the marks of the states it has, by cell."""

    begun: Any = None
    have: Any = None


def mark_of(state: State) -> List[Any]:
    """Return what tells a state from a later one without reading it; a state that home has is not listed again."""
    return [round(state.made_unix, 3), sum(one.info.st_size for one in state.files), len(state.files)]


Measure = Callable[[str, State], Optional[float]]  # cell, state: the job's metric of it, if its writer left one


def unmeasured(cell: str, state: State) -> Optional[float]:
    """Measure nothing."""
    return None


class Chosen(NamedTuple):
    """The files of the chosen states, what was left out, and each state: cell, path, step, made_unix, metric."""

    files: List[Tuple[str, Found]]
    left: List[Left]
    states: List[List[Any]]


def choose(
    view: StableView, folder: RunFolder, cells: Iterable[str], path: str, told: Told, measure: Measure = unmeasured
) -> Chosen:
    """Pin a state of each cell: the one that home has begun to fetch, if it is still there, else the newest whole."""
    chosen = Chosen([], [], [])
    wanted, have = _begun(told.begun), told.have if isinstance(told.have, dict) else {}
    for cell in cells:
        state = _again(view, folder, cell, wanted.get(cell, []), path) or _newest(view, folder, cell, path, chosen.left)
        if state is None:
            continue
        root = view.root(cell)
        if mark_of(state) not in (have.get(cell) or ()):
            chosen.files.extend((cell, one) for one in state.files)
        value = measure(cell, state)
        chosen.states.append([cell, state.path, step_of(root, state), round(state.made_unix, 3), value])
    return chosen


def _newest(view: StableView, folder: RunFolder, cell: str, path: str, left: List[Left]) -> Optional[State]:
    """Pin the newest states, keep those that hold still, and return the newest whole one of them."""
    said: List[Left] = []
    for _ in range(_TRIES):
        view.clear(cell)
        listed = states(folder.out(cell), path)[:_CANDIDATES]
        if not listed:
            return None
        said = []
        for one in listed:
            taken = view.take([(cell, found) for found in one.files], view.quiet_s, copies=len(one.files) == 1)
            said += taken.left
            if taken.left or (len(one.files) > 1 and _grew(folder.out(cell), one, path)):
                for found in one.files:
                    view.drop(cell, found.path)
                if not taken.left:
                    said.append((cell, one.path, "it is being written"))
        root = view.root(cell)
        newest = newest_whole(root, path)
        if newest.state is None:
            newest = newest_whole(root, path, stable=True)
        said += [(cell, torn, why) for torn, why in newest.passed_over]
        if newest.state is not None:
            left += said
            return newest.state
    left += said
    return None


def _grew(root: str, state: State, path: str) -> bool:
    """Return whether a folder has other files now than when its files were pinned; one that is gone has not grown."""
    now = next((one for one in states(root, path) if one.path == state.path), None)
    return now is not None and bool({one.path for one in now.files} - {one.path for one in state.files})


def _again(view: StableView, folder: RunFolder, cell: str, wanted: List[Listed], path: str) -> Optional[State]:
    """Return the state that home has begun to fetch, from the view of a cut connection or from the disk."""
    if not wanted:
        return None
    for root in (view.root(cell), folder.out(cell)):
        found = []
        for _, name, size, mtime_ns in wanted:
            try:
                info = os.lstat(os.path.join(root, name))
            except OSError:
                break
            if (info.st_size, info.st_mtime_ns) != (size, mtime_ns):
                break
            found.append(Found(name, info))
        if len(found) != len(wanted):
            continue
        if root != view.root(cell):
            view.clear(cell)
            if view.take([(cell, one) for one in found], 0.0).left:
                return None
        held = [one for one in states(view.root(cell), path) if {name.path for name in one.files} >= set(_names(found))]
        return held[0] if len(held) == 1 else None
    return None


def _names(found: List[Found]) -> List[str]:
    return [one.path for one in found]


def _begun(said: Any) -> Dict[str, List[Listed]]:
    wanted: Dict[str, List[Listed]] = {}
    for row in said if isinstance(said, list) else ():
        try:
            cell, path, size, mtime_ns = row
            wanted.setdefault(str(cell), []).append((str(cell), check_relative(path), int(size), int(mtime_ns)))
        except (TypeError, ValueError, UnsafePath):
            return {}
    return wanted
