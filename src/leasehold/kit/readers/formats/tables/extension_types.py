"""Arrow's extension types that are pickles: pyarrow before 14.0.1 runs them when it opens the table."""

from __future__ import annotations

import base64
from typing import Iterator, Tuple

_PICKLED = b"arrow.py_extension_type"


def pickled_types(described: bytes) -> Tuple[str, ...]:
    """Return the name of the type that a footer would have unpickled, if present, plain or in base64 (Parquet)."""
    return (_PICKLED.decode(),) if any(form in described for form in _FORMS) else ()


def _in_base64(text: bytes) -> Iterator[bytes]:
    """Yield the base64 form of a text within any surrounding bytes, for each alignment at which it can begin."""
    for before in range(3):
        whole = (before + len(text)) * 8 // 6
        yield base64.b64encode(b"\0" * before + text)[-(-before * 8 // 6) : whole]


_FORMS = (_PICKLED, *_in_base64(_PICKLED))
