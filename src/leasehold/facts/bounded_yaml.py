"""Read one YAML document: no duplicate keys, and its size is bounded before anything is built from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MAX_TEXT = 1 << 20
_MAX_NODES = 10_000  # counted with every alias expanded: a few lines of aliases can stand for gigabytes
_MAX_SCALAR = 100_000
_SCALARS = {"tag:yaml.org,2002:int": 100, "tag:yaml.org,2002:float": 100}  # Python cannot even print a huge one


class YamlProblem(ValueError):
    """A problem in a document, its line (0: the whole), and the fix."""

    def __init__(self, what: str, line: int = 0, hint: str = "") -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.what = what
        self.line = line
        self.hint = hint


def load(
    text: str, most_depth: int, loader_of: Callable[[str], Any] | None = None, lines: dict[str, int] | None = None
) -> Any:
    """Load plain YAML, by SafeLoader unless another is given; fill `lines` with each key's line, by dotted path."""
    import yaml

    if len(text) > _MAX_TEXT:
        raise YamlProblem(f"it is larger than {_MAX_TEXT >> 20} MiB")
    try:
        loader = (loader_of or yaml.SafeLoader)(text)
        node = loader.get_single_node()
        _Look(most_depth, {} if lines is None else lines).at(node, "", 0)
        return None if node is None else loader.construct_document(node)  # of the parsed tree: read only once
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        hint = "YAML indents with spaces; quote text that holds ': ' or starts with *, {, [ or @"
        raise YamlProblem(f"not valid YAML: {problem}", mark.line + 1 if mark else 0, hint) from None
    except RecursionError:
        raise YamlProblem(f"nested deeper than {most_depth} levels") from None
    except YamlProblem:
        raise
    except (ValueError, AttributeError, OverflowError) as error:  # a date or number that YAML parses but cannot build
        raise YamlProblem(f"not valid YAML: {error}", hint="quote dates and numbers") from None


class _Look:
    """Walks the parsed tree once, before anything is built from it: lines, duplicates, and limits."""

    def __init__(self, most_depth: int, lines: dict[str, int]) -> None:
        self._most_depth = most_depth
        self._lines = lines
        self._nodes = 0

    def at(self, node: Any, path: str, depth: int) -> None:
        """Record the lines of the keys below node."""
        self._nodes += 1
        if depth > self._most_depth:
            raise _bad(node, f"nested deeper than {self._most_depth} levels")
        if self._nodes > _MAX_NODES:
            raise _bad(node, f"more than {_MAX_NODES:,} values, with its aliases spelled out")
        kind = getattr(node, "id", "")
        if kind == "scalar" and len(node.value) > _SCALARS.get(node.tag, _MAX_SCALAR):
            raise _bad(node, "a value is too long")
        if kind == "sequence":
            for number, item in enumerate(node.value):
                self._lines[f"{path}.{number}"] = item.start_mark.line + 1
                self.at(item, f"{path}.{number}", depth + 1)
        if kind == "mapping":
            self._keys(node, path, depth)

    def _keys(self, node: Any, path: str, depth: int) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if key.id != "scalar":
                raise _bad(key, "a key must be a plain word")
            word = str(key.value)
            if word in seen:
                raise _bad(key, f"duplicate key: {word}", "keep one of them")
            seen.add(word)
            inner = f"{path}.{word}" if path else word
            self._lines[inner] = key.start_mark.line + 1
            self.at(value, inner, depth + 1)


def _bad(node: Any, what: str, hint: str = "") -> YamlProblem:
    return YamlProblem(what, node.start_mark.line + 1, hint)
