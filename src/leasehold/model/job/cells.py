"""Cells: the units of a sweep, each with its own name, its parameters, and its estimated cost."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool
Params = dict[str, Scalar]
MAIN = "main"  # the one cell of a plain job
SEED = "seed"
_PLAIN = re.compile(r"[^A-Za-z0-9.+-]+")
_NAME_MOST = 80  # a name is also a folder, a tmux word and a Slurm comment


@dataclass(frozen=True)
class Cell:
    """One unit of work: what distinguishes it, and how much work it has relative to the others."""

    name: str
    params: Mapping[str, Scalar]
    cost: float = 1.0  # relative, or seconds once measured
    on_nan: str = ""  # tell or stop; empty is the job's own setting

    def as_dict(self) -> dict[str, Any]:
        """Return the form for the plan and the wire."""
        own = {"on_nan": self.on_nan} if self.on_nan else {}
        return {"name": self.name, "params": dict(self.params), "cost": self.cost, **own}


def cell_from_dict(value: Mapping[str, Any]) -> Cell:
    """Read back a cell that this home wrote itself."""
    return Cell(value["name"], dict(value["params"]), value.get("cost", 1.0), value.get("on_nan", ""))


class DuplicateCell(Exception):
    """Two cells of one name: their results would share one folder."""

    def __init__(self, name: str, first: Mapping[str, Scalar], second: Mapping[str, Scalar]) -> None:
        what = "is a duplicate" if dict(first) == dict(second) else f"is the name of {_say(first)} and {_say(second)}"
        super().__init__(f"{name} {what}")


def product(grid: Mapping[str, list[Scalar]], side_by_side: Mapping[str, list[Scalar]]) -> list[Params]:
    """Multiply the grid out, last key fastest; zipped keys advance together, as one more axis."""
    axes: list[list[Params]] = [[{key: value} for value in values] for key, values in grid.items()]
    if side_by_side:
        length = len(next(iter(side_by_side.values())))
        axes.append([{key: values[place] for key, values in side_by_side.items()} for place in range(length)])
    if not axes:
        return []
    return [{key: value for part in row for key, value in part.items()} for row in itertools.product(*axes)]


def without(rows: Iterable[Params], excluded: Iterable[Params]) -> list[Params]:
    """Remove every row that matches all values of some exclusion."""
    patterns = list(excluded)
    return [row for row in rows if not any(_matches(row, pattern) for pattern in patterns)]


def name_cell(params: Mapping[str, Scalar], given: str = "") -> str:
    """Name a cell by itself alone: cells that are added later must not rename it."""
    seed = f"_{SEED}-{_word(params[SEED])}" if SEED in params and given else ""
    parts = [given + seed] if given else [f"{key}-{_word(value)}" for key, value in params.items()]
    name = "_".join(parts)
    if len(name) <= _NAME_MOST:
        return name
    mark = hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:10]
    return f"{name[: _NAME_MOST - 11].rstrip('.-_')}-{mark}"


def check_injective(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return the cells if every name is unique, also ignoring case."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.name.lower(), cell)
        if other is not cell:
            raise DuplicateCell(cell.name, other.params, cell.params)
    return tuple(seen.values())


def differing(cells: Iterable[Cell]) -> dict[str, list[Scalar | None]]:
    """Return the keys that differ between cells, with every value once, in order; a key that a cell lacks is None."""
    rows = [cell.params for cell in cells]
    keys = dict.fromkeys(key for row in rows for key in row)
    values = {key: list(dict.fromkeys((type(row.get(key)), row.get(key)) for row in rows)) for key in keys}
    return {key: [value for _, value in found] for key, found in values.items() if len(found) > 1}


def spell(value: Scalar) -> str:
    """Format a parameter as the command line and the environment receive it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _matches(row: Params, pattern: Params) -> bool:
    return all(key in row and row[key] == value for key, value in pattern.items())


def _word(value: Scalar) -> str:
    return _PLAIN.sub("-", spell(value)).strip("-.") or "x"


def _say(params: Mapping[str, Scalar]) -> str:
    return "{" + ", ".join(f"{key}: {spell(value)}" for key, value in params.items()) + "}"
