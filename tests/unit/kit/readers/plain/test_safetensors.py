"""Safetensors written by hand: the header must account for every byte, once."""

from __future__ import annotations

import struct

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import safetensors, span


def test_tensors_in_any_order_of_the_header_are_read(reading_of):
    header = {
        "b": span("BF16", [2, 2], 8, 16),
        "__metadata__": {"format": "pt"},
        "a": span("F32", [2], 0, 8),
        "empty": span("F32", [0, 4], 8, 8),
        "scalar": span("I64", [], 16, 24),
    }
    reading = reading_of("safetensors", safetensors(header, b"\0" * 24))
    assert (reading.tensors, reading.numel) == (4, 7)
    assert reading.keys == ("b", "a", "empty", "scalar")


@pytest.mark.parametrize(
    "dtype, bits",
    [
        *[(name, 8) for name in ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0")],
        *[(name, 8) for name in ("F8_E4M3FNUZ", "F8_E5M2FNUZ")],
        *[(name, 16) for name in ("I16", "U16", "F16", "BF16")],
        *[(name, 32) for name in ("I32", "U32", "F32")],
        *[(name, 64) for name in ("I64", "U64", "F64", "C64")],
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
    ],
)
def test_every_dtype_has_its_size(reading_of, dtype, bits):
    size = 8 * bits // 8
    header = {"w": span(dtype, [8], 0, size)}
    assert reading_of("safetensors", safetensors(header, b"\0" * size)).numel == 8


def test_header_padded_with_spaces_is_read(reading_of):
    assert reading_of("safetensors", safetensors('{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}    ', b"x"))


def test_a_file_without_tensors_is_noted(reading_of):
    assert "no tensors" in reading_of("safetensors", safetensors({})).notes[0]


@pytest.mark.parametrize(
    "header, seen",
    [
        ({"a": span("U8", [4], 0, 4), "b": span("U8", [4], 2, 6)}, "overlaps"),
        ({"a": span("U8", [4], 0, 4), "b": span("U8", [3], 5, 8)}, "leaves 1 bytes"),
        ({"a": span("U8", [4], 4, 8)}, "leaves 4 bytes"),
        ({"a": span("U8", [4], 0, 4)}, "accounts for 4"),
        ({"a": span("U8", [12], 0, 12)}, "accounts for 12"),
        ({"a": span("F32", [3], 0, 8)}, "needs 12 bytes"),
        ({"a": span("F32", [2**40], 0, 8)}, "needs"),
        ({"a": span("F32", [2**62] * 9, 0, 8)}, "needs"),
        ({"a": span("F4", [1], 0, 8)}, "needs"),
        ({"a": span("U8", [-8], 0, 8)}, "natural"),
        ({"a": span("U8", [True, 8], 0, 8)}, "natural"),
        ({"a": span("U8", [8.0], 0, 8)}, "natural"),  # type: ignore[list-item]
        ({"a": span("U8", [8], 8, 0)}, "beginning and an end"),
        ({"a": span("X9", [8], 0, 8)}, "unknown"),
        ({"a": {"dtype": "U8", "shape": [8]}}, "must have"),
        ({"a": {**span("U8", [8], 0, 8), "extra": 1}}, "must have"),
        ({"a": {"dtype": "U8", "shape": 8, "data_offsets": [0, 8]}}, "not a list"),
        ({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 4, 8]}}, "beginning and an end"),
        ({"a": 3}, "must have"),
        ({"__metadata__": {"a": 1}}, "text to text"),
        ({"__metadata__": []}, "text to text"),
        ('{"a": NaN}', "NaN"),
        ('{"a": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"a": {}', "not JSON"),
        ('["a"]', "begins with"),
        (' {"a": {}}', "begins with"),
        ("{" + '"a":{' * 500 + "}" * 501, "deeper"),
    ],
)
def test_headers_that_lie_are_refused(refusal_of, header, seen):
    assert seen in refusal_of("safetensors", safetensors(header, b"\0" * 8))


@pytest.mark.parametrize("inner", ['"dtype":"U8","dtype":"U8",', ""])
def test_a_name_given_twice_is_refused(refusal_of, inner):
    one = '"a":{' + inner + '"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
    two = '"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}'
    assert "twice" in refusal_of("safetensors", safetensors("{" + one + "," + two + "}", b"\0" * 8))


def test_a_header_length_beyond_the_file_is_refused(refusal_of):
    assert "claims 10737418240 bytes" in refusal_of("safetensors", struct.pack("<Q", 10 * 2**30) + b"{}")


def test_a_header_longer_than_the_limit_is_refused(refusal_of):
    assert "at most 100" in refusal_of("safetensors", safetensors("{" + " " * 200 + "}"), Limits(max_header_bytes=100))


def test_more_tensors_than_the_limit_are_refused(refusal_of):
    header = {str(i): span("U8", [0], 0, 0) for i in range(20)}
    assert "20 tensors" in refusal_of("safetensors", safetensors(header), Limits(max_items=10))


def test_a_header_that_is_not_utf8_is_refused(refusal_of):
    assert "UTF-8" in refusal_of("safetensors", struct.pack("<Q", 3) + b"{\xff}")
