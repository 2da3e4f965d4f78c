"""The line numbers of the keys of a facts file, for messages that name a file and a line."""

from __future__ import annotations

from typing import Any

Way = tuple[str, ...]


def key_lines(text: str) -> dict[Way, int]:
    """Map the path of every key to its line; an entry of a list counts by its `name`."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return {}  # the profile's own reader reports what is wrong with the file
    found: dict[Way, int] = {}
    _collect(root, (), found, 0)
    return found


def line_of(lines: dict[Way, int], way: Way) -> int:
    """Return the line of a key, else of the nearest key above it; 0 if the file has none of them."""
    for length in range(len(way), 0, -1):
        if way[:length] in lines:
            return lines[way[:length]]
    return 0


def _collect(node: Any, way: Way, found: dict[Way, int], depth: int) -> None:
    if depth > 12:
        return
    if node is not None and node.id == "mapping":
        for key, value in node.value:
            inner = (*way, str(key.value))
            found.setdefault(inner, key.start_mark.line + 1)
            _collect(value, inner, found, depth + 1)
    elif node is not None and node.id == "sequence":
        for item in node.value:
            inner = (*way, _name(item))
            found.setdefault(inner, item.start_mark.line + 1)
            _collect(item, inner, found, depth + 1)


def _name(item: Any) -> str:
    if item.id == "scalar":
        return str(item.value)
    names = [value.value for key, value in item.value if key.value == "name"] if item.id == "mapping" else []
    return str(names[0]) if names else ""
