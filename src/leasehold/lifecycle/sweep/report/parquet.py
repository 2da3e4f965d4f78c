"""Write a table as Parquet, with pyarrow where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from leasehold.errors import UserError
from leasehold.model.job.cells import spell

Value = str | int | float | bool | None
_INT64 = range(-(1 << 63), 1 << 63)


def write_parquet(columns: dict[str, Sequence[Value]]) -> bytes:
    """Write columns of equal length; a column's type is the widest of its values, and None is null."""
    arrow, parquet = _pyarrow()
    arrays = []
    for values in columns.values():
        kind, convert = _kind(values)
        arrays.append(arrow.array([None if value is None else convert(value) for value in values], kind))
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_arrays(arrays, list(columns)), sink)
    return bytes(sink.getvalue())


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UserError(
            "sweep.no_pyarrow", "Parquet is written by pyarrow, which is not installed", seen=str(error),
            hint="pip install 'leasehold[parquet]' (pipx inject leasehold pyarrow); --format csv needs nothing",
        ) from None  # fmt: skip


def _kind(values: Sequence[Value]) -> tuple[str, Callable[[Any], Value]]:
    """Return pyarrow's type for a column, and the converter for its values."""
    there = [value for value in values if value is not None]
    seen = {type(value) for value in there}
    if seen == {bool}:
        return "bool", bool
    if seen == {int} and all(value in _INT64 for value in there):
        return "int64", int
    return ("float64", float) if seen and seen <= {int, float} else ("string", spell)
