"""Begin a sha256 as cheaply as its size allows: OpenSSL hashes fastest, and to load it takes longer than a little."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hashlib

LITTLE_BYTES = 256 << 10


def new_sha256(size_bytes: int) -> "hashlib._Hash":
    """Return an empty sha256 for about so many bytes; where OpenSSL is loaded already, its own."""
    if size_bytes <= LITTLE_BYTES and "hashlib" not in sys.modules:
        for name in ("_sha2", "_sha256"):  # Python's own, as hashlib takes them where there is no OpenSSL
            try:
                return __import__(name).sha256()  # type: ignore[no-any-return]
            except ImportError:
                continue
    import hashlib

    return hashlib.sha256()
