"""What is not home when a box is given up, as lines for the screen and a lease's history."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import count, say_bytes

_NAMED = 5  # files listed in one line; the rest are counted


def where_results_are(all_promised: bool, lost: Iterable[Mapping[str, Any]], deletes: bool) -> str:
    """State that everything is home, or list what is not."""
    lines = list(not_home_lines(lost, deletes))
    if not lines:
        return "everything is home" if all_promised else "not every promised result is home"
    return "; ".join((["every promised result is home"] if all_promised else []) + lines)


def not_home_lines(lost: Iterable[Mapping[str, Any]], deletes: bool) -> Iterator[str]:
    """List what is given up or exists only on the box, and what happens to it."""
    for one in lost:
        if one["cell"]:
            word = "given up" if one["given_up"] else "not home"
            yield "%s: cell %s of %s; %s" % (word, one["cell"], one["run"], _files(one, deletes))
        else:
            yield "not home, as no artifact names them: %s" % _files(one, deletes)


def _files(one: Mapping[str, Any], deletes: bool) -> str:
    paths = one["paths"]
    if not paths:
        return "nothing of it is on the box"
    fate = "deleted with the box" if deletes else "left on the box"
    names = ", ".join(one_line(path) for path in paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "")
    return "%s, %s, %s: %s" % (count(one["files"], "file"), say_bytes(one["bytes"]), fate, names)
