"""Every value a state holds comes back as what it was."""

from __future__ import annotations

import math
import random
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest

from leasehold.checkpoint import ResumableSampler
from leasehold.checkpoint.decide.save_interval import Pace
from leasehold.checkpoint.state.snapshot import Stage
from leasehold.checkpoint.state.tree import Flat
from leasehold.checkpoint.store.files import load_file, write_file
from leasehold.kit.readers import read

Point = namedtuple("Point", "x y")


def there_and_back(tmp_path: Path, value: Any) -> Any:
    path = tmp_path / "v.safetensors"
    write_file(str(path), Stage().take(Flat({"v": value})), {"step": "1"})
    assert read(str(path), "safetensors").kind == "safetensors"  # the strict reader at home takes it
    return load_file(str(path)).part("v")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**200), 1.5, 1e-308, "中文 \U0001f600", b"", b"\0bytes", bytearray(b"x"), (), [], {},
        (1, (2, [3])), "half \ud83d",
        {1: "a", (2, 3): None}, {"$dict": 1, "x": {"$tuple": []}}, {"a": {1, 2}, "b": frozenset("ab")}, 3 + 4j,
        OrderedDict([("b", 1), ("a", 2)]), Point(1, [2.0]), range(3), random.Random(3).getstate(),
    ],
)  # fmt: skip
def test_plain_values_come_back(tmp_path: Path, value: Any) -> None:
    back = there_and_back(tmp_path, value)
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_cannot_spell_come_back(tmp_path: Path, value: float) -> None:
    assert repr(there_and_back(tmp_path, value)) == repr(value)


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", "i8", "u4", "u2", "i1", "?", "c8", "c16", ">f4", "U3", "M8[s]", "f4,i8"]
)
def test_arrays_come_back(tmp_path: Path, dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros((3, 2), dtype)
    back = there_and_back(tmp_path, {"a": array.T, "empty": array[:0], "one": array[0, 0]})
    assert (back["a"] == array.T).all() and back["a"].shape == (2, 3)
    assert back["a"].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    assert back["empty"].shape == (0, 2)
    assert type(back["one"]) is type(array[0, 0])


def test_what_is_one_array_in_two_places_is_saved_once(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    shared = numpy.ones(1000)
    flat = Flat({"v": {"a": shared, "b": shared}})
    assert [leaf.name for leaf in flat.leaves] == ["v.a"]
    back = there_and_back(tmp_path, {"a": shared, "b": shared})
    assert back["a"] is back["b"]


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="v.hook holds a .*function"):
        Flat({"v": {"hook": lambda: None}})


def test_a_sampler_gives_each_index_once_and_goes_on_where_it_was() -> None:
    whole = ResumableSampler(103, 10, seed=1)
    order = list(whole)
    assert sorted(sum(order, [])) == list(range(103))
    first = ResumableSampler(103, 10, seed=1)
    for _ in range(4):
        first.advance()
    second = ResumableSampler(103, 10, seed=1)
    second.load_state_dict(first.state_dict())
    assert list(second) == order[4:]
    with pytest.raises(ValueError, match="seed, batch, world"):
        ResumableSampler(103, 20, seed=1).load_state_dict(first.state_dict())


def test_two_processes_share_an_epoch_without_overlap() -> None:
    halves = [ResumableSampler(100, 10, seed=1, rank=rank, world=2) for rank in (0, 1)]
    taken = [sum(half, []) for half in halves]
    assert sorted(taken[0] + taken[1]) == list(range(100))


def test_the_pace_follows_what_a_save_costs() -> None:
    pace = Pace(0.0, gap_s=10_000.0, every_s=None, every_steps=None)
    assert not pace.due(29.0) and pace.due(31.0)  # before anything was measured
    for now in range(1, 11):
        pace.stepped(float(now), writing=False)
    pace.snapped(10.5, stall_s=0.5)
    pace.stepped(13.0, writing=True)  # 1.5 s longer than the others
    pace.written(5.0)
    assert pace.cost_s == pytest.approx(2.0)
    assert pace.every_s == pytest.approx((2 * 10_000 * 2.0) ** 0.5)
    pace.written(200.0)
    assert pace.every_s >= 2 * 60  # never busier with writing than with waiting
