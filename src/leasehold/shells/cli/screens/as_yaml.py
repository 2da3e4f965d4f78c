"""Objects as YAML documents, as kubectl takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def as_yaml(values: Iterable[Mapping[str, Any]]) -> str:
    """Format objects as one stream of documents."""
    import yaml

    return "---\n".join(yaml.safe_dump(dict(value), sort_keys=False, width=100) for value in values)
