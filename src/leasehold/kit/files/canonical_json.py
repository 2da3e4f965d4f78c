"""Canonical JSON, so that both ends hash the same bytes."""

from __future__ import annotations

import json
from typing import Any

from .sha256 import new_sha256


def canonical(value: Any) -> bytes:
    """Encode as compact UTF-8 JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def digest(value: Any) -> str:
    """Hash the canonical JSON with sha256."""
    return sha256(canonical(value))


def sha256(data: bytes) -> str:
    """Hash bytes with sha256, as hex."""
    sha = new_sha256(len(data))
    sha.update(data)
    return sha.hexdigest()
