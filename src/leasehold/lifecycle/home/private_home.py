"""Keep the home folder private from its first moment: its ledger names boxes, its channels hold secrets."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077
_STICKY_OR_SHARED = stat.S_ISVTX | stat.S_ISGID
_OURS = ("ledger.sqlite", "allowed_signers", "notify.json", "known_hosts", "cache", "boxes", "links", "handbooks")
_KEPT_CODE = re.compile(r"\.?[0-9a-f]{40,64}\.")


def close(folder: Path) -> str:
    """Create the folder, or remove other users' permissions on it; return what a person must know, if anything.

    A folder with anything else in it may be a project, a home directory or a volume: it is reported, not changed.
    """
    if os.name == "nt":
        return ""
    with suppress(OSError):  # the code that needs the home reports why it cannot be created
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.stat()
        if not seen.st_mode & _OTHERS:
            return ""
        mode = stat.filemode(seen.st_mode)
        if seen.st_uid == os.geteuid() and not seen.st_mode & _STICKY_OR_SHARED and _holds_only_ours(folder):
            with suppress(OSError):
                folder.chmod(seen.st_mode & ~_OTHERS & 0o7777)
                return f"{folder} was open to others ({mode}); it is now yours alone" if any(folder.iterdir()) else ""
        return f"{folder}, which holds the ledger, is open to others ({mode}): chmod 700, or another LEASEHOLD_HOME"
    return ""


def _holds_only_ours(folder: Path) -> bool:
    return all(_is_kept_code(entry) or entry.name.startswith(_OURS) for entry in os.scandir(folder))


def _is_kept_code(entry: os.DirEntry[str]) -> bool:
    """Return whether this is kept code: a project's own folder of this name has entries not named by a hash."""
    if entry.name != "code" or not entry.is_dir(follow_symlinks=False):
        return False
    names = os.listdir(entry.path)
    return bool(names) and all(_KEPT_CODE.match(name) for name in names)
