"""Read `data:` of a job file: files and folders of this machine that are sent to the box; errors name the entry."""

from __future__ import annotations

from typing import Any

from leasehold.kit.files.paths import UnsafePath, check_relative

from .job import LocalData
from .keys import DATA_WORDS
from .known_keys import Bad, refuse_overlap, refuse_unknown

_HINT = "for example: data: [data/train.bin], or {from: ~/datasets/coco, to: coco}"


def parse_data(value: Any, bad: Bad) -> tuple[LocalData, ...]:
    """Check the whole list; one entry may be given without a list."""
    value = [value] if isinstance(value, str | dict) else value
    if not isinstance(value, list):
        raise bad("data", f"must be a list, not {type(value).__name__}", _HINT)
    found = tuple(_entry(item, f"data.{place}", bad) for place, item in enumerate(value))
    refuse_overlap((item.to for item in found), "data", bad)
    return found


def _entry(item: Any, key: str, bad: Bad) -> LocalData:
    item = {"from": item} if isinstance(item, str) else item
    if not isinstance(item, dict):
        raise bad(key, f"must be a path, or a mapping with from and to, not {type(item).__name__}", _HINT)
    refuse_unknown(item, key, DATA_WORDS, bad)
    source = item.get("from")
    if not isinstance(source, str) or not source.strip() or "\0" in source:
        raise bad(f"{key}.from", "must be the path of a file or folder on this machine", _HINT)
    outside = source.startswith(("/", "~")) or ".." in source.split("/")
    if "to" not in item and outside:
        raise bad(key, f"{source} lies outside the project, so it needs `to`", f"{{from: {source}, to: NAME}}")
    return LocalData(source, _place(item.get("to", source), f"{key}.to", bad))


def _place(value: Any, key: str, bad: Bad) -> str:
    """Return its place for the run: relative to its working folder."""
    try:
        text = str(value).removeprefix("./").rstrip("/") if isinstance(value, str) else value
        path = check_relative(text)
    except UnsafePath as error:
        raise bad(key, f"{error}; it is relative to the run's working folder", _HINT) from None
    return path
