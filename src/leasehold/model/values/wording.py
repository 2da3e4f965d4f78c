"""Make text safe to show: on one line, without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import ago, utc_minute

__all__ = ["ago", "one_line", "utc_minute", "without_secrets"]


def without_secrets(value: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Remove tokens and this environment's secrets from text, or from the texts of a JSON value."""
    from leasehold.kit.text.redact import Redactor, in_environment

    return Redactor(in_environment(environ)).tree(value)
