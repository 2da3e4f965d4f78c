"""Text that is safe to show: on one line, without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import ago, utc_minute

__all__ = ["ago", "one_line", "utc_minute", "without_secrets"]


def without_secrets(value: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Take out of text, or of a JSON value's texts, what has a token's shape or is a secret of this environment."""
    from leasehold.kit.text.redact import Redactor, in_environment

    return Redactor(in_environment(environ)).tree(value)
