"""Hash files as cheaply as their size allows: OpenSSL is fastest, but loading it takes longer than a small hash."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Optional, Tuple, Union

if TYPE_CHECKING:
    import hashlib

LITTLE_BYTES = 256 << 10
_BLOCK_BYTES = 1 << 20

Block = Union[bytes, bytearray, memoryview]


def new_sha256(size_bytes: int) -> "hashlib._Hash":
    """Return a new sha256 for about so many bytes; OpenSSL's if it is loaded already."""
    if size_bytes <= LITTLE_BYTES and "hashlib" not in sys.modules:
        for name in ("_sha2", "_sha256"):  # Python's own, which hashlib falls back to without OpenSSL
            try:
                return __import__(name).sha256()  # type: ignore[no-any-return]
            except ImportError:
                continue
    import hashlib

    return hashlib.sha256()


def blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield a file's bytes in blocks; `read` is the read method of an open file, preferably unbuffered."""
    return iter(lambda: read(_BLOCK_BYTES), b"")


def hash_blocks(
    parts: Iterable[Block], size_bytes: int = _BLOCK_BYTES, each: "Optional[Callable[..., object]]" = None
) -> Tuple[int, str]:
    """Return the number of bytes read and their sha256; `each` is called with every block that is hashed."""
    sha, count = new_sha256(size_bytes), 0
    for part in parts:
        sha.update(part)
        count += len(part)
        if each is not None:
            each(part)
    return count, str(sha.hexdigest())


def hash_file(path: str) -> str:
    """Return a file's sha256."""
    with open(path, "rb", buffering=0) as file:
        return hash_blocks(blocks(file.read))[1]
