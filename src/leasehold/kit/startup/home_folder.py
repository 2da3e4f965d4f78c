"""The path of the home. The first import of a command: it loads nothing that Python has not loaded."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping


def home_folder(environ: Mapping[str, str]) -> str:
    """Find the home: LEASEHOLD_HOME, else a folder of the XDG data folder."""
    data = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "~", ".local", "share")
    chosen = os.path.expanduser(environ.get("LEASEHOLD_HOME") or os.path.join(data, "leasehold"))
    return chosen if os.path.isabs(chosen) else os.path.join(os.getcwd(), chosen)
