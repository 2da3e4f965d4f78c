"""Run this parcel again, or let a forked child continue as another of our processes."""

from __future__ import annotations

import os
import sys
from typing import Callable, List, Optional

_MOST_INHERITED = 64


def own_argv(*words: str) -> List[str]:
    """Build a command line that runs this same parcel again; a folder's main file starts faster than the folder."""
    main = os.path.join(sys.argv[0], "__main__.py")
    return [sys.executable, "-I", "-S", main if os.path.isfile(main) else sys.argv[0], *words]


class Becoming:
    """How a forked child becomes another of our processes: by exec, which stays small for days, or by going on as is.

    A task of a cluster chooses the latter: its cells are many, often short, and Python takes longer to start.
    """

    main: "Optional[Callable[[List[str]], int]]" = None  # the parcel's entry point; None starts a fresh process

    @classmethod
    def go(cls, *words: str) -> None:
        """Become that process; does not return."""
        if cls.main is None:
            argv = own_argv(*words)
            os.execv(argv[0], argv)
        else:
            os.closerange(3, _MOST_INHERITED)  # locks and journals of the parent are not ours
            os._exit(cls.main(list(words)))
