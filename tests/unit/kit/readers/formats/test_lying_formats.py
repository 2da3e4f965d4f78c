"""Files that other libraries would read in another way than their first look says, and files that cost too much."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest

from leasehold.kit.readers.base.result import DEFAULT_LIMITS
from leasehold.kit.readers.formats.models.hdf5 import _type
from leasehold.kit.readers.formats.models.keras_config import opaque_layers

GOLDEN = Path(__file__).parents[1] / "golden"


def varint(value):
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(number, wire, value):
    return varint(number << 3 | wire) + (varint(len(value)) if wire == 2 else b"") + value


def onnx(*parts):
    tensor = field(5, 2, field(8, 2, b"w") + b"".join(parts))
    return field(1, 0, b"\x08") + field(7, 2, tensor) + field(8, 2, b"")


def shape(size, kind):
    return field(1, 0, varint(size)) + field(2, 0, varint(kind))


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ((shape(1, 1), field(9, 2, bytes(4)), field(14, 0, b"\x01")), "does not name"),
        ((shape(2, 1), field(4, 1, bytes(8))), "needs 8 bytes, it has 0"),
        ((shape(3, 7), field(7, 2, b"\x01\x80\x01")), "needs 3 numbers, it has 2"),
        ((shape(3, 7), field(7, 2, b"\x01\x01\x80")), "no whole number"),
        ((shape(2, 8), field(6, 2, b"a")), "needs 2 texts, it has 1"),
    ],
)
def test_an_onnx_tensor_without_all_of_its_values_is_refused(refusal_of, parts, seen):
    assert seen in refusal_of("onnx", onnx(*parts))


def test_a_damaged_description_of_an_onnx_value_is_refused(refusal_of):
    broken = field(2, 2, field(1, 2, field(2, 2, field(1, 2, b"\x0f"))))
    model = field(1, 0, b"\x08") + field(7, 2, field(11, 2, broken)) + field(8, 2, b"")
    assert "unknown kind" in refusal_of("onnx", model) or "number" in refusal_of("onnx", model)


def test_a_field_that_onnx_would_pass_over_hides_no_nan(reading_of):
    nan = struct.pack("<f", float("nan"))
    found = reading_of(
        "onnx", onnx(shape(1, 1), field(13, 2, field(1, 2, b"location")), field(9, 2, nan), b"\x72\x01x")
    )
    assert (found.numbers.nan, found.numbers.unread) == (1, "")


def test_onnx_values_that_lie_as_numbers_are_counted(reading_of):
    packed = onnx(shape(3, 7), field(7, 2, b"\x01\x80\x01\x02"))
    assert reading_of("onnx", packed).numel == 3
    assert reading_of("onnx", onnx(shape(3, 22), field(5, 2, b"\x01\x02"))).numel == 3  # two of four bits in each


@pytest.mark.parametrize("named", ["enable_unsafe_deserialization", "get_file", "__lambda__", "__typespec__"])
def test_a_function_named_as_a_keras_layer_is_no_plain_layer(named):
    facts = {"class_name": "Sequential", "config": {"layers": [{"class_name": named, "module": "keras.config"}]}}
    assert opaque_layers(json.dumps(facts).encode(), DEFAULT_LIMITS) == ["keras.config.%s" % named]


def test_keras_layers_of_its_own_are_plain():
    facts = [{"class_name": name, "module": "keras.layers"} for name in ("Dense", "GRU", "__tensor__", "_Merge")]
    assert opaque_layers(json.dumps(facts).encode(), DEFAULT_LIMITS) == []


_F32 = b"\x11\x20\x1f\0" + struct.pack("<IHHBBBBI", 4, 0, 32, 23, 8, 0, 23, 127)


@pytest.mark.parametrize(("at", "value"), [(1, 0x61), (1, 0x00), (2, 30), (8, 1), (12, 22), (14, 1), (16, 126)])
def test_an_hdf5_float_of_another_layout_is_not_taken_for_a_usual_one(at, value):
    assert (_type(_F32).dtype, _type(_F32[:1] + b"\x21" + _F32[2:]).big_endian) == ("F32", True)
    assert _type(_F32[:at] + bytes([value]) + _F32[at + 1 :]).dtype == ""


@pytest.mark.parametrize(
    "text",
    [
        "|\n0x1\n", "\ta: 1\n", "a: \tb\n", "a: b\tc\n", "a: &x~y 1\n", "a: &x 1\nb: *x?\n", "!t ? a\n", "[:]\n",
        "{a\n b: 1}\n", "!t\n!u a\n", "!t\n!u |\n a\n", "&a *a\n", "[a?b]\n", "&a \t\tb\n",
    ],
)  # fmt: skip
def test_yaml_that_pyyaml_refuses_is_refused(refusal_of, text):
    assert "line " in refusal_of("yaml", text)


@pytest.mark.parametrize("text", ["a: |\n b\n", "? a\n: b\n", "!t\n&x a: 1\n", "[a: 1, b]\n", "a: b  # c\n"])
def test_yaml_that_is_near_it_is_read(reading_of, text):
    assert reading_of("yaml", text).kind == "yaml"


@pytest.mark.parametrize("listed", [b"\x49\xfc", b"\x29\xfc", b"\x59\xfc", b"\x49\x1c\x19\xf1"])
def test_a_parquet_footer_of_millions_of_small_values_is_refused_early(refusal_of, listed):
    count = 3_000_000
    footer = listed + varint(count) + bytes(count) + b"\0\0"
    seen = refusal_of("parquet", b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    assert "that many are not read" in seen or "another type" in seen


def test_an_arrow_schema_that_repeats_one_column_is_refused_early(refusal_of):
    count = 1_000_000
    head = (
        struct.pack("<I4HiI", 12, 8, 8, 0, 4, 8, 12) + struct.pack("<4HiI", 8, 8, 0, 4, 8, 4) + struct.pack("<I", count)
    )
    footer = (
        head + b"".join(struct.pack("<I", 4 * (count - at) + 4) for at in range(count)) + struct.pack("<HHi", 4, 4, 4)
    )
    assert "not read" in refusal_of("arrow", b"ARROW1\0\0" + footer + struct.pack("<I", len(footer)) + b"ARROW1")


@pytest.mark.parametrize("before", range(3))
def test_a_parquet_column_that_pyarrow_would_unpickle_is_named(reading_of, before):
    data = (GOLDEN / "parquet" / "plain.parquet").read_bytes()
    begin = data.index(b"ARROW:schema\x18") + 15 + 60
    hidden = base64.b64encode(b"\0" * before + b"arrow.py_extension_type and more")
    assert reading_of("parquet", data).opaque == ()
    seen = reading_of("parquet", data[:begin] + hidden + data[begin + len(hidden) :])
    assert seen.opaque == ("arrow.py_extension_type",)


def test_an_arrow_column_that_pyarrow_would_unpickle_is_named(reading_of):
    data = (GOLDEN / "arrow" / "plain.arrow").read_bytes()
    length = int.from_bytes(data[-10:-6], "little")
    named = b"\x17\0\0\0arrow.py_extension_type\0"
    changed = data[:-10] + named + struct.pack("<I", length + len(named)) + data[-6:]
    assert reading_of("arrow", data).opaque == ()
    assert reading_of("arrow", changed).opaque == ("arrow.py_extension_type",)
