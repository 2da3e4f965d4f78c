"""Checkpoints that are folders, and numbers that are none: all shards there, sizes adding up, NaN seen."""

from __future__ import annotations

import json
import math
import pickle
import random
import struct
from pathlib import Path

import pytest

from leasehold.kit.readers import Unreadable
from leasehold.kit.readers.base.count_nonfinite import count_nonfinite
from leasehold.kit.readers.checkpoints.folders import read_folder
from tests.unit.kit.readers.forge import (
    Saved,
    Tensor,
    called,
    dcp_chunk,
    dcp_list,
    dcp_tensor,
    finished,
    mapping,
    named,
    number,
    safetensors,
    span,
    text,
    torch_zip,
)

NAMES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def hf(tmp_path: Path) -> Path:
    """A true folder of two shards."""
    place = tmp_path / "hf"
    place.mkdir()
    one, two = struct.pack("<2f", 1.0, -2.0), struct.pack("<3f", 1.0, 2.0, 3.0)
    (place / NAMES[0]).write_bytes(safetensors({"a.w": span("F32", [2], 0, 8)}, one))
    (place / NAMES[1]).write_bytes(safetensors({"b.w": span("F32", [3], 0, 12)}, two))
    index(place)
    return place


def index(place: Path, **change: object) -> None:
    value = {"metadata": {"total_size": 20}, "weight_map": {"a.w": NAMES[0], "b.w": NAMES[1]}, **change}
    (place / "model.safetensors.index.json").write_text(json.dumps(value))


def refusal(place: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        read_folder(str(place))
    return caught.value.reason


def test_an_index_with_all_its_shards_is_read(hf: Path) -> None:
    reading = read_folder(str(hf))
    assert (reading.kind, reading.tensors, reading.numel, reading.keys) == ("hf", 2, 5, ("a", "b"))
    assert "2 shards, all there, sizes add up" in reading.notes


def test_a_missing_shard_is_named(hf: Path) -> None:
    (hf / NAMES[1]).unlink()
    assert f"{NAMES[1]} cannot be opened" in refusal(hf)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"metadata": {"total_size": 21}}, "claims 21 bytes of tensors, the shards hold 20"),
        (
            {"weight_map": {"a.w": NAMES[0], "b.w": NAMES[1], "c.w": NAMES[1]}},
            "lacks 1 tensors of the index, such as c.w",
        ),
        ({"weight_map": {"a.w": NAMES[0], "b.w": "../../etc/passwd"}}, "not a plain file name"),
        ({"weight_map": {"a.w": NAMES[0], "b.w": "/etc/passwd"}}, "not a plain file name"),
        ({"weight_map": {"a.w": NAMES[0], "b.w": 7}}, "no weight_map"),
        ({"weight_map": {}}, "no weight_map"),
        ({"weight_map": "x"}, "no weight_map"),
    ],
)
def test_a_lying_index_is_refused(hf: Path, change: dict, seen: str) -> None:
    index(hf, **change)
    assert seen in refusal(hf)


def test_a_shard_with_more_than_the_index_names_is_refused(hf: Path) -> None:
    content = safetensors({"b.w": span("F32", [3], 0, 12), "extra": span("U8", [1], 12, 13)}, b"\0" * 13)
    (hf / NAMES[1]).write_bytes(content)
    assert "holds 2 tensors, the index names 1" in refusal(hf)


def test_an_index_that_is_nested_too_deep_is_refused(hf: Path) -> None:
    (hf / "model.safetensors.index.json").write_text('{"weight_map":' + "[" * 100_000)
    assert "is not JSON" in refusal(hf)


def test_a_shard_that_is_a_link_is_refused(hf: Path, tmp_path: Path) -> None:
    (hf / NAMES[1]).rename(tmp_path / "elsewhere")
    (hf / NAMES[1]).symlink_to(tmp_path / "elsewhere")
    assert "is a link" in refusal(hf)


def test_a_nan_in_a_shard_is_seen(hf: Path) -> None:
    data = struct.pack("<3f", 1.0, math.nan, math.inf)
    (hf / NAMES[1]).write_bytes(safetensors({"b.w": span("F32", [3], 0, 12)}, data))
    assert any("NOT FINITE: 2 NaN" in note for note in read_folder(str(hf)).notes)


# ---------------------------------------------------------------- torch's DCP


@pytest.fixture
def dcp(tmp_path: Path) -> Path:
    """A folder as DCP writes it, its list spelled by hand: two values in a shard, and one in another."""
    place = tmp_path / "dcp"
    place.mkdir()
    (place / "__0_0.distcp").write_bytes(ONE + ONE)
    (place / "__1_0.distcp").write_bytes(ONE)
    metadata(place)
    return place


ONE = torch_zip(finished(number(1)), {})


def metadata(place: Path, shard: str = "__1_0.distcp", offset: int = 0, length: int = 0) -> None:
    listed = [
        Saved("model.w", "__0_0.distcp", 0, len(ONE)),
        Saved("model.b", "__0_0.distcp", len(ONE), len(ONE)),
        Saved("optimizer.x", shard, offset, length or len(ONE)),
    ]
    (place / ".metadata").write_bytes(dcp_list(listed))


def test_a_dcp_folder_with_all_its_shards_is_read(dcp: Path) -> None:
    reading = read_folder(str(dcp))
    assert (reading.kind, reading.tensors, reading.keys) == ("dcp", 3, ("model", "optimizer"))


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"shard": "__2_0.distcp"}, "__2_0.distcp cannot be opened"),
        ({"length": 9}, "bytes, .metadata accounts for 9"),
        ({"length": 10**10}, "accounts for 10000000000"),
        ({"offset": -4}, "no name and numbers"),
        ({"length": 2**70}, "no name and numbers"),
        ({"length": 2**61, "offset": 2**61 + 2**61 - 1}, "impossible place"),
        ({"shard": "../../../etc/passwd"}, "not a plain file name"),
        ({"shard": "/etc/passwd"}, "not a plain file name"),
    ],
)
def test_a_lying_dcp_list_is_refused(dcp: Path, change: dict, seen: str) -> None:
    metadata(dcp, **change)
    assert seen in refusal(dcp)


def test_a_cut_shard_of_dcp_is_refused(dcp: Path) -> None:
    (dcp / "__0_0.distcp").write_bytes(ONE + ONE[:-1])
    assert "has %d bytes, .metadata accounts for %d" % (2 * len(ONE) - 1, 2 * len(ONE)) in refusal(dcp)


def test_every_cut_of_a_dcp_list_is_refused(dcp: Path) -> None:
    whole = (dcp / ".metadata").read_bytes()
    for size in range(len(whole)):
        (dcp / ".metadata").write_bytes(whole[:size])
        refusal(dcp)


def test_a_shard_that_no_list_names_is_noted(dcp: Path) -> None:
    (dcp / "__7_0.distcp").write_bytes(b"x")
    assert any("1 shards are not named" in note for note in read_folder(str(dcp)).notes)
    (dcp / "rng.pt").write_bytes(b"x")
    assert "not looked at, beside the weights: __7_0.distcp, rng.pt" in read_folder(str(dcp)).notes


def part(values: list, more: bytes = b"") -> bytes:
    """One torch file, as DCP puts them into a shard end to end."""
    raw = struct.pack(f"<{len(values)}f", *values)
    tensor = Tensor("0", len(values), (len(values),), (1,)).pickle()
    return torch_zip(finished(mapping({"w": tensor, **({"more": more} if more else {})})), {"0": raw})


def fill(place: Path, *parts: bytes, overlap: int = 0, size: tuple = ()) -> None:
    """Write one shard of these parts and the list of them."""
    listed, at = [], 0
    for count, data in enumerate(parts):
        begin = max(0, at - overlap)
        listed.append(Saved(f"model.layer{count}", "__0_0.distcp", begin, at + len(data) - begin, size))
        at += len(data)
    for old in place.glob("*.distcp"):
        old.unlink()
    (place / "__0_0.distcp").write_bytes(b"".join(parts))
    (place / ".metadata").write_bytes(dcp_list(listed))


def test_every_part_of_a_shard_is_read_as_the_torch_file_it_is(dcp: Path) -> None:
    fill(dcp, part([1.0, 2.0]), part([3.0, 4.0, 5.0]))
    reading = read_folder(str(dcp))
    assert (reading.tensors, reading.numel, reading.opaque) == (2, 5, ())
    assert "finite: all of 20 bytes of floating-point numbers" in reading.notes


def test_nan_in_a_part_is_found_and_named(dcp: Path) -> None:
    fill(dcp, part([1.0, 2.0]), part([3.0, math.nan, -math.inf]))
    assert "NOT FINITE: 2 NaN or infinite, in model.layer1" in read_folder(str(dcp)).notes


def test_a_part_that_needs_code_is_named(dcp: Path) -> None:
    fill(dcp, part([1.0], called("os.system", text("true"))))
    assert read_folder(str(dcp)).opaque == ("os.system",)


def test_damage_inside_a_part_is_refused_by_its_name(dcp: Path) -> None:
    good = part([1.0, 2.0])
    at = good.index(struct.pack("<2f", 1.0, 2.0))
    fill(dcp, part([3.0]), good[:at] + b"\x01" + good[at + 1 :])
    assert "model.layer1 in __0_0.distcp zip entry" in refusal(dcp)


def test_parts_that_overlap_are_refused(dcp: Path) -> None:
    fill(dcp, part([1.0]), part([2.0]), overlap=1)
    assert "model.layer1 begins inside the part before it" in refusal(dcp)


def test_a_value_that_is_no_torch_file_is_refused_as_dcp_does(dcp: Path) -> None:
    fill(dcp, part([1.0]), b"no torch file")
    assert "model.layer1 in __0_0.distcp is no torch file" in refusal(dcp)


def test_a_shard_of_zeros_is_no_tensor(dcp: Path) -> None:
    good = part([1.0, 2.0])
    fill(dcp, good, size=(2,))
    assert read_folder(str(dcp)).numel == 2
    (dcp / "__0_0.distcp").write_bytes(b"\0" * len(good))
    assert "is no torch file: it begins with b'\\x00" in refusal(dcp)


def test_a_tensor_of_another_size_than_the_list_says_is_refused(dcp: Path) -> None:
    fill(dcp, part([1.0, 2.0]), size=(3,))
    assert "holds 2 numbers, .metadata says 3" in refusal(dcp)


def test_bytes_between_two_parts_are_refused(dcp: Path) -> None:
    one, two = part([1.0]), part([2.0])
    (dcp / "__0_0.distcp").write_bytes(one + b"\0" * 7 + two)
    (dcp / "__1_0.distcp").unlink()
    listed = [Saved("a", "__0_0.distcp", 0, len(one)), Saved("b", "__0_0.distcp", len(one) + 7, len(two))]
    (dcp / ".metadata").write_bytes(dcp_list(listed))
    assert "7 bytes before b belong to no part" in refusal(dcp)


CHUNK = dcp_chunk((0,), (3,))


@pytest.mark.parametrize(
    ("chunks", "places", "seen"),
    [
        ([CHUNK], [(0,)], "hold 3 numbers of its 6"),
        ([CHUNK, dcp_chunk((3,), (3,))], [(0,)], "does not state where w lies (from 3)"),
        ([CHUNK, dcp_chunk((4,), (3,))], [(0,), (4,)], "reaches past its end"),
        ([dcp_chunk((0,), (4,)), dcp_chunk((3,), (2,))], [(0,), (3,)], "lie over each other"),
        ([dcp_chunk((0, 0), (3, 2))], [(0, 0)], "another number of dimensions"),
        ([dcp_chunk((0,), (6,))], [(0,), (3,)], "gives a place to w, which was not saved"),
        ([dcp_chunk((0,), (6,))], [(0,), (0,)], "two places"),
    ],
)
def test_chunks_that_do_not_make_up_their_tensor_are_refused(dcp: Path, chunks: list, places: list, seen: str) -> None:
    data = part([1.0, 2.0, 3.0])
    (dcp / "__0_0.distcp").write_bytes(data * len(places))
    (dcp / ".metadata").write_bytes(dcp_tensor("w", (6,), chunks, "__0_0.distcp", len(data), places))
    assert seen in refusal(dcp)


@pytest.mark.parametrize("where", ["planner_data", "storage_meta"])
def test_a_dcp_list_that_would_run_a_command_names_it(dcp: Path, tmp_path: Path, where: str) -> None:
    canary = tmp_path / "canary"
    attack = called("os.system", text(f"touch '{canary}'"))
    pickle.loads(finished(attack))
    assert canary.exists()  # torch reads the list with a bare pickle.load
    canary.unlink()
    fill(dcp, part([1.0]))
    size = (dcp / "__0_0.distcp").stat().st_size
    (dcp / ".metadata").write_bytes(dcp_list([Saved("a", "__0_0.distcp", 0, size)], {where: attack}))
    assert read_folder(str(dcp)).opaque == ("os.system",)
    assert not canary.exists()


def test_a_dcp_list_that_changes_a_known_class_is_refused(dcp: Path) -> None:
    changed = named("torch.Size") + mapping({"x": number(1)}) + b"b"
    (dcp / ".metadata").write_bytes(dcp_list([Saved("a", "__0_0.distcp", 0, 30)], {"planner_data": changed}))
    assert "changes torch.Size itself" in refusal(dcp)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "is a folder without" in refusal(tmp_path)


# ---------------------------------------------------------------- finite


@pytest.mark.parametrize(("dtype", "form"), [("F32", "f"), ("F64", "d"), ("F16", "e")])
def test_nan_and_infinity_are_counted_and_large_numbers_are_not(dtype: str, form: str) -> None:
    largest = {"F32": 3.4e38, "F64": 1.7e308, "F16": 65504.0}[dtype]
    good = [0.0, -0.0, 1.5, -largest, largest, 1e-7]
    bad = [math.nan, -math.nan, math.inf, -math.inf]
    pack = struct.Struct(f"<{len(good + bad)}{form}")
    assert sum(count_nonfinite(pack.pack(*good, *bad), dtype)) == 4
    assert sum(count_nonfinite(struct.pack(f"<{len(good)}{form}", *good), dtype)) == 0


def test_bfloat16_is_the_upper_half_of_a_float32() -> None:
    halves = b"".join(struct.pack("<f", value)[2:] for value in (1.0, -3.0e38, math.nan, -math.inf))
    assert sum(count_nonfinite(halves, "BF16")) == 2


@pytest.mark.parametrize(("dtype", "form"), [("F64", "d"), ("F32", "f")])
def test_single_bad_numbers_are_found_wherever_they_lie(dtype: str, form: str) -> None:
    width, chance = struct.calcsize(form), random.Random(dtype)
    numbers = bytearray(struct.pack("<40000" + form, *([1.5, -3e38 if form == "f" else -1.7e308] * 20000)))
    places = {0, 39999, *chance.sample(range(40000), 50)}
    for place in places:
        numbers[place * width : (place + 1) * width] = struct.pack(
            "<" + form, chance.choice([math.inf, -math.inf, math.nan])
        )
    assert sum(count_nonfinite(bytes(numbers), dtype)) == len(places)
    assert sum(count_nonfinite(bytes(numbers)[: -width + 1], dtype)) == len(places) - 1  # half a number is none


def test_every_pattern_of_the_short_types_is_judged_by_its_definition() -> None:
    halves = struct.pack("<65536H", *range(65536))
    assert sum(count_nonfinite(halves, "F16")) == sum(
        not math.isfinite(value) for (value,) in struct.iter_unpack("<e", halves)
    )
    brains = [struct.unpack("<f", b"\0\0" + halves[at : at + 2])[0] for at in range(0, len(halves), 2)]
    assert sum(count_nonfinite(halves, "BF16")) == sum(not math.isfinite(value) for value in brains)
    assert sum(count_nonfinite(bytes(range(256)), "F8_E5M2")) == 8
    assert sum(count_nonfinite(bytes(range(256)), "F8_E4M3")) == 2
    assert [sum(count_nonfinite(bytes(range(256)), kind)) for kind in ("F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")] == [
        1,
        1,
        1,
    ]


def test_a_torch_file_with_a_nan_says_so(reading_of) -> None:
    from tests.unit.kit.readers.forge import Tensor

    data = struct.pack("<6f", 1, 2, math.nan, 4, 5, 6)
    content = torch_zip(finished(mapping({"model": mapping({"w": Tensor().pickle()})})), {"0": data})
    assert reading_of("checkpoint", content).notes[0].startswith("NOT FINITE: 1 NaN")
