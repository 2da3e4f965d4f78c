"""Read `cells:` of a job file: a list, a grid, a queue file, seeds; every error names the key and the fix."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from leasehold.errors import UserError
from leasehold.kit.files.paths import UnsafePath, check_name

from .cells import SEED, Cell, DuplicateCell, Params, Scalar, check_injective, differing, name_cell, product, without
from .keys import CELL_WORDS, ON_NAN
from .known_keys import Bad, refuse_unknown

MOST_CELLS = 10_000
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TAKEN = ("out", "run", "cell", "attempt", "data", "name", "on_nan")
_QUEUE = ("config", "task", "epochs")
_HINT = "for example: cells: {grid: {lr: [0.1, 0.01]}, seeds: 3}"
ReadFile = Callable[[str], Any]  # its text, or for YAML the parsed content


class _Row(NamedTuple):
    """A cell before it has its name: its label, its parameters, and its NaN setting."""

    given: str
    params: Params
    on_nan: str = ""


@dataclass(frozen=True)
class Roster:
    """The cells of a job, and the settings for all of them."""

    cells: tuple[Cell, ...] = ()
    compare: tuple[str, ...] = ()  # the only keys that may differ, if any is named
    at_once: int = 0  # how many may run in parallel; 0 is as many as there are places


def parse_cells(value: Any, read_file: ReadFile, bad: Bad) -> Roster:
    """Check and multiply out the whole key."""
    if isinstance(value, list):
        value = {"list": value}
    if not isinstance(value, dict) or not value:
        raise bad("cells", "must be a list of cells, or a mapping with grid, list or file", _HINT)
    refuse_unknown(value, "cells", CELL_WORDS, bad, "; parameters go below grid or list")
    rows = _rows(value, read_file, bad)
    cells = _named(_with_seeds(rows, value, bad), value.get("cost", ""), bad)
    compare = _keys(value.get("compare", []), cells, bad)
    return Roster(cells, compare, _at_once(value.get("at_once", 0), bad))


def _rows(value: dict[str, Any], read_file: ReadFile, bad: Bad) -> list[_Row]:
    grid = _axes(value.get("grid", {}), "cells.grid", bad)
    together = _axes(value.get("zip", {}), "cells.zip", bad)
    _check_zip(grid, together, bad)
    size = math.prod(len(values) for values in grid.values()) * max((len(v) for v in together.values()), default=1)
    if size > MOST_CELLS:
        raise bad("cells.grid", f"makes {size:,} cells; the most is {MOST_CELLS:,}", "split it into several jobs")
    excluded = [_params(row, f"cells.exclude.{place}", bad) for place, row in _items(value, "exclude", bad)]
    rows = [_Row("", row) for row in without(product(grid, together), excluded)]
    rows += [_row(row, f"cells.list.{place}", bad) for place, row in _items(value, "list", bad)]
    if "file" in value:
        rows += _file_rows(value["file"], read_file, bad)
    if not rows:
        raise bad("cells", "promises no cell at all", _HINT)
    if len(rows) > MOST_CELLS:
        raise bad("cells", f"has {len(rows):,} cells; the most is {MOST_CELLS:,}", "split it into several jobs")
    return rows


def _check_zip(grid: dict[str, list[Scalar]], together: dict[str, list[Scalar]], bad: Bad) -> None:
    lengths = {key: len(values) for key, values in together.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise bad("cells.zip", f"its lists are of different length: {said}", "zip walks them side by side")
    for key in grid.keys() & together.keys():
        raise bad(f"cells.zip.{key}", "is also in grid", "keep it in one of them")


def _axes(value: Any, key: str, bad: Bad) -> dict[str, list[Scalar]]:
    if not isinstance(value, dict):
        raise bad(key, f"must map each parameter to a list of values, not {type(value).__name__}", _HINT)
    for name, values in value.items():
        where = f"{key}.{name}"
        if not isinstance(values, list) or not values:
            raise bad(where, "must be a list of values", f"{name}: [one, two]")
        checked = [_scalar(item, where, bad) for item in values]
        if len({(type(item), item) for item in checked}) != len(checked):
            raise bad(where, "has a duplicate value", "each would be run twice into one folder")
        _check_key(name, where, bad)
    return value


def _items(value: dict[str, Any], key: str, bad: Bad) -> list[tuple[int, Any]]:
    items = value.get(key, [])
    if not isinstance(items, list):
        raise bad(f"cells.{key}", f"must be a list, not {type(items).__name__}", _HINT)
    return list(enumerate(items))


def _row(value: Any, key: str, bad: Bad) -> _Row:
    if isinstance(value, str):
        return _Row(_given(value, key, bad), {})
    given = on_nan = ""
    if isinstance(value, dict) and "on_nan" in value:
        on_nan = _on_nan(value["on_nan"], f"{key}.on_nan", bad)
        value = {name: item for name, item in value.items() if name != "on_nan"}
    if isinstance(value, dict) and "name" in value:
        given = _given(value["name"], f"{key}.name", bad)
        value = {name: item for name, item in value.items() if name != "name"}
        if not value:
            return _Row(given, {}, on_nan)
    return _Row(given, _params(value, key, bad), on_nan)


def _on_nan(value: Any, key: str, bad: Bad) -> str:
    if value == "":  # a table has the column, but this row is empty there
        return ""
    if value not in ON_NAN:
        raise bad(key, f"{value!r} is none of {', '.join(ON_NAN)}", "on_nan: stop ends a cell whose loss is not finite")
    return str(value)


def _params(value: Any, key: str, bad: Bad) -> Params:
    if not isinstance(value, dict) or not value:
        raise bad(key, f"must map parameters to values, not {type(value).__name__}", "- {lr: 0.1, model: small}")
    for name, item in value.items():
        _check_key(name, f"{key}.{name}", bad)
        _scalar(item, f"{key}.{name}", bad)
    return dict(value)


def _given(name: Any, key: str, bad: Bad) -> str:
    try:
        return check_name(name, "cell")
    except UnsafePath as error:
        raise bad(key, str(error), "the name is also the cell's folder") from None


def _check_key(name: Any, key: str, bad: Bad) -> None:
    if not isinstance(name, str) or not _KEY.match(name):
        raise bad(key, "is not a plain word: letters, digits and _", "it becomes {{word}} and LEASE_PARAM_word")
    if name in _TAKEN:
        raise bad(key, f"{name} has a meaning of its own here", "choose another word")


def _scalar(value: Any, key: str, bad: Bad) -> Scalar:
    if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise bad(key, f"must be text or a number, not {type(value).__name__}", "quote it")
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= char <= "\udfff" for char in value)):
        raise bad(key, "holds a NUL or half a character, which no environment can carry", "")
    return value


def _with_seeds(rows: list[_Row], value: dict[str, Any], bad: Bad) -> list[_Row]:
    seeds = value.get("seeds")
    if seeds is None:
        return rows
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= MOST_CELLS:
        seeds = list(range(seeds))
    whole = isinstance(seeds, list) and seeds and all(isinstance(s, int) and not isinstance(s, bool) for s in seeds)
    if not whole or len(set(seeds)) != len(seeds):
        raise bad("cells.seeds", "must be how many, or a list of different whole numbers", "seeds: [0, 1, 2]")
    if any(SEED in row.params for row in rows):
        raise bad("cells.seeds", f"a cell has a parameter {SEED} already", "keep one of the two")
    if len(rows) * len(seeds) > MOST_CELLS:
        raise bad("cells.seeds", f"makes {len(rows) * len(seeds):,} cells; the most is {MOST_CELLS:,}", "")
    return [row._replace(params={**row.params, SEED: seed}) for row in rows for seed in seeds]


def _named(rows: list[_Row], cost: Any, bad: Bad) -> tuple[Cell, ...]:
    cells = [
        Cell(
            _given(name_cell(row.params, row.given), "cells", bad), row.params, _cost(row.params, cost, bad), row.on_nan
        )
        for row in rows
    ]
    try:
        return check_injective(cells)
    except DuplicateCell as error:
        raise bad(
            "cells", str(error), "results of two cells must not share a folder: give one of them a name"
        ) from None


def _cost(row: Params, cost: Any, bad: Bad) -> float:
    if cost == "":
        return 1.0
    amount = row.get(cost) if isinstance(cost, str) else None
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < 1e12:
        raise bad("cells.cost", f"names a parameter that says how much work a cell is; {row} has none", "cost: epochs")
    return float(amount)


def _keys(value: Any, cells: tuple[Cell, ...], bad: Bad) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise bad("cells.compare", "must be a list of parameters", "compare: [lr]")
    known = {key for cell in cells for key in cell.params}
    for key in value:
        if key not in known:
            raise bad("cells.compare", f"no cell has a parameter {key}", f"known: {', '.join(sorted(known))}")
    found = differing(cells)
    stray = [key for key in found if value and key not in (*value, SEED)]
    if stray:
        said = "; ".join(f"{key}: {', '.join(map(str, found[key][:4]))}" for key in stray)
        raise bad(
            "cells.compare", f"says that only {', '.join(value)} may differ, and so does {said}", "pin it, or list it"
        )
    return tuple(value)


def _at_once(value: Any, bad: Bad) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_CELLS:
        raise bad("cells.at_once", f"must be a whole number, not {value!r}", "at_once: 4")
    return value


def _file_rows(name: Any, read_file: ReadFile, bad: Bad) -> list[_Row]:
    if not isinstance(name, str) or not name:
        raise bad("cells.file", f"must be a path beside the job file, not {type(name).__name__}", "file: queue.txt")
    text = read_file(name)

    def wrong(key: str, message: str, hint: str) -> UserError:
        return bad("cells.file", f"{name}: {key}: {message}", hint)

    if name.endswith((".yaml", ".yml")):
        if not isinstance(text, list):
            raise wrong("", "must hold a list of cells", "- {lr: 0.1, model: small}")
        return [_row(row, f"entry {place}", wrong) for place, row in enumerate(text, 1)]
    return _csv_rows(text, wrong) if name.endswith(".csv") else _queue_rows(text, wrong)


def _csv_rows(text: str, bad: Bad) -> list[_Row]:
    rows = []
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), strict=True)
    try:
        for record in reader:
            if None in record or None in record.values():
                raise bad(f"line {reader.line_num}", "has another number of fields than the first line", "")
            typed = {key: item if key == "name" else _number(item) for key, item in record.items()}
            rows.append(_row(typed, f"line {reader.line_num}", bad))
    except csv.Error as error:
        raise bad(f"line {reader.line_num}", str(error), "is it a comma-separated file?") from None
    return rows


def _queue_rows(text: str, bad: Bad) -> list[_Row]:
    """Read `config task [epochs]` lines; blank ones and those that start with # are skipped."""
    rows = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not 2 <= len(words) <= len(_QUEUE) or (len(words) > 2 and not words[2].isdigit()):
            raise bad(
                f"line {number}", f"{line.strip()[:60]!r} is not `config task [epochs]`", "other columns: a .csv file"
            )
        params = {key: _number(word) if key == "epochs" else word for key, word in zip(_QUEUE, words, strict=False)}
        stem = words[0].rsplit("/", 1)[-1].rsplit(".", 1)[0] or words[0]
        rows.append(_Row(name_cell({}, _plain(f"{stem}-{words[1]}")), params))
    return rows


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "cell"


def _number(word: str) -> Scalar:
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        if math.isfinite(value) and str(value) == word:  # 007 and 1_000 stay text: the command gets what was written
            return value
    return word
