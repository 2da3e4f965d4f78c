"""How things are said."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from leasehold.kit.text.safe_text import one_line

__all__ = ["ago", "one_line", "utc_minute", "without_secrets"]


def utc_minute(unix: float) -> str:
    """Spell a moment for people, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix))


def ago(seconds: float) -> str:
    """Say a duration in its two largest units."""
    whole = int(max(0, seconds))
    for size, unit, below, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def without_secrets(value: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Take out of text, or of a JSON value's texts, what has a token's shape or is a secret of this environment."""
    from leasehold.kit.text.redact import Redactor, in_environment

    return Redactor(in_environment(environ)).tree(value)
