"""Compare a new list of code with the newest one here: after an edit they differ in a line or two of thousands.

A list that lies in trees/ is complete: every file it names is here. A reader that finds one missing deletes such lists.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from typing import Any, Dict, List, Optional, Tuple

from leasehold.kit.files.canonical_json import sha256

# A list is canonical JSON whose entries begin with a key and end in a text, and a quote inside a text is escaped: this
# stands between two entries and nowhere else.
_BETWEEN = b'"},{"'
_HEAD, _TAIL = b'{"entries":[{"', b'"}],"schema":'
_MOST_BYTES = 256 << 20
_MOST_PART = 4  # beyond a fourth of it, checking all entries is as fast


def news(folder: str, ending: str, text: bytes) -> Optional[List[Dict[str, Any]]]:
    """Return the entries of a list that the newest complete list lacks; None where all must be checked."""
    name, base = _newest(folder, ending)
    pieces, known = _pieces(text), _pieces(base)
    if not pieces or not known or sha256(base) != name:
        return None
    fresh = set(pieces).difference(known)
    if len(fresh) * _MOST_PART > len(pieces):
        return None
    return [json.loads((b'{"' + piece + b'"}').decode("utf-8")) for piece in fresh]


def _newest(folder: str, ending: str) -> Tuple[str, bytes]:
    best = (-1, "")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(ending):
                best = max(best, (entry.stat().st_mtime_ns, entry.name))
    if not best[1]:
        return "", b""
    return best[1][: -len(ending)], _unpacked(os.path.join(folder, best[1]))


def _unpacked(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return zlib.decompressobj().decompress(file.read(), _MOST_BYTES)
    except (OSError, zlib.error):
        return b""


def _pieces(text: bytes) -> List[bytes]:
    end = text.rfind(_TAIL)
    return text[len(_HEAD) : end].split(_BETWEEN) if text.startswith(_HEAD) and end > len(_HEAD) else []
