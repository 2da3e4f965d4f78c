"""Editable installs in a set-up: they make an environment shared with other runs import this run's folder."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, Tuple

from .shell_installs import commands

_PIP = re.compile(r"pip[0-9.]*\Z")
_PYTHON = re.compile(r"python[0-9.]*\Z")
_EDITABLE = re.compile(r"-e\Z|-e[^-=\s].*|--editable(?:=.*)?\Z")
EDITABLE_HINT = (
    'install what it needs (pip install -r requirements.txt), and write PYTHONPATH="$PWD:$PYTHONPATH" (with src/: '
    '"$PWD/src:…") before python in `run`: it then imports this run\'s own copy; '
    "or make an environment of the run's own first: python -m venv .venv && . .venv/bin/activate"
)


def editable_installs(setup: str) -> List[str]:
    """List the editable installs that a set-up's own text makes in an environment outside the run."""
    return [" ".join(words) for words, own in _installs(setup) if not own and _is_editable(words)]


def own_environment(setup: str) -> bool:
    """Return whether every install of a set-up goes into an environment inside the run's own folder."""
    return all(own for _, own in _installs(setup))


def _installs(setup: str) -> Iterator[Tuple[List[str], bool]]:
    """Yield each install's words, and whether it goes into an environment inside the run's own folder."""
    entered = False
    for words in commands(setup):
        if words[:1] in (["."], ["source"]) and len(words) == 2 and words[1].endswith("/activate"):
            entered = _is_own(words[1])
        if words[:2] == ["uv", "venv"] and not any(word.startswith("/") for word in words):
            entered = True  # where uv then installs by default
        place = next((at for at, word in enumerate(words) if _PIP.match(os.path.basename(word))), None)
        develops = words[1:3] == ["setup.py", "develop"] and _PYTHON.match(os.path.basename(words[0]))
        if develops or (place is not None and "install" in words[place:]):
            yield words, (entered and "--system" not in words) or ("/" in words[0] and _is_own(words[0]))


def _is_own(path: str) -> bool:
    """Return whether a path lies in the working folder, which is the run's own copy."""
    inside = path[5:] if path.startswith("$PWD/") else path
    return not inside.startswith(("/", "~", "$", ".."))


def _is_editable(words: List[str]) -> bool:
    return any(_EDITABLE.match(word) for word in words) or "develop" in words[:3]
