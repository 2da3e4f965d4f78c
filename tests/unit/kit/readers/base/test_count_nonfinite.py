"""Numbers that are not finite: counted, and named by the key, column or tensor that holds them."""

from __future__ import annotations

import math
import struct

import pytest

from leasehold.kit.readers.base.count_nonfinite import count_nonfinite
from tests.unit.kit.readers.forge import (
    Member,
    Tensor,
    finished,
    mapping,
    npy,
    npy_header,
    safetensors,
    span,
    torch_zip,
    zip_bytes,
)


def _found(reading):
    return reading.numbers.nan, reading.numbers.inf, dict(reading.numbers.where)


@pytest.mark.parametrize(
    ("text", "nan", "inf", "where"),
    [
        ("NaN", 1, 0, {"the value itself": 1}),
        ("[1, NaN, -Infinity, 2]", 1, 1, {"[]": 2}),
        ('{"a": {"b": [1, {"c": NaN}], "d": 1}, "e": Infinity}', 1, 1, {"a.b[].c": 1, "e": 1}),
        ('{"wandb": {"x": 1, "loss": "NaN", "y": 2}}', 1, 0, {"wandb.loss": 1}),
        ('{"lang": "nan", "note": "NaN is bad", "NaN": 1}', 0, 0, {}),
    ],
)
def test_json_names_the_keys_of_numbers_that_are_not_finite(reading_of, text, nan, inf, where):
    assert _found(reading_of("json", text)) == (nan, inf, where)
    lines = "\n" + '{"ok": 1}\n' * 3 + text.replace("\n", " ") + "\n"
    by_line = _found(reading_of("jsonl", lines))
    assert by_line[:2] == (nan, inf)


def test_a_large_json_is_counted_across_its_pieces(reading_of):
    rows = ",".join('{"step": %d, "loss": %s}' % (step, "NaN" if step % 1000 == 0 else 0.5) for step in range(60000))
    assert _found(reading_of("json", "[" + rows + "]")) == (60, 0, {"[].loss": 60})


def test_a_csv_names_columns_of_numbers_and_leaves_words_alone(reading_of):
    rows = "".join("%d,%s,%s,\n" % (n, ("en", "nan")[n % 2], "0.5") for n in range(4))
    content = "step,lang,loss,note\n" + rows + "4,nan,nan,\n5,de, -inf,\n6,de,NaN,\n"
    assert _found(reading_of("csv", content)) == (2, 1, {"loss": 3})


def test_a_column_of_nan_alone_is_counted(reading_of):
    assert _found(reading_of("csv", "step,loss\n1,nan\n2,nan\n")) == (2, 0, {"loss": 2})


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "form"), [("f2", "e"), ("f4", "f"), ("f8", "d")])
def test_arrays_of_every_float_are_counted(reading_of, order, kind, form):
    data = struct.pack(order + "5" + form, 1.5, math.nan, math.inf, -math.inf, 2.0)
    header = npy_header("'%s%s'" % (order, kind), "(5,)")
    assert _found(reading_of("npy", npy(data, header))) == (1, 2, {"the array": 3})
    members = [
        Member("w.npy", npy(data, header), deflate=True),
        Member("i.npy", npy(b"\xff" * 8, npy_header("'<i8'", "(1,)"))),
    ]
    assert _found(reading_of("npz", zip_bytes(members))) == (1, 2, {"w": 3})


def test_an_array_of_records_is_said_to_be_unread(reading_of):
    header = npy_header("[('a', '<f4')]", "(1,)")
    assert reading_of("npy", npy(struct.pack("<f", math.nan), header)).numbers is None
    inside = reading_of("npz", zip_bytes([Member("r.npy", npy(struct.pack("<f", math.nan), header))]))
    assert inside.numbers.bad == 0 and inside.numbers.unread == "1 members of records or wide floats"


def test_safetensors_name_the_tensors_and_how_many_more_there_are(reading_of):
    header = {"t%02d" % n: span("F32", [1], 4 * n, 4 * n + 4) for n in range(20)}
    found = reading_of("safetensors", safetensors(header, struct.pack("<20f", *[math.nan] * 20))).numbers
    assert (found.nan, found.where[0], len(found.where), found.more) == (20, ("t00", 1), 8, 12)


def test_a_torch_file_names_nan_tensors_and_plain_numbers_by_their_keys(reading_of):
    data = struct.pack("<6f", 1, 2, math.nan, 4, math.inf, 6)
    plain = b"G" + struct.pack(">d", math.nan)
    worst = b"G" + struct.pack(">d", math.inf)  # schedulers keep such a bound
    state = mapping({"model": mapping({"fc.weight": Tensor().pickle()}), "loss": plain, "mode_worse": worst})
    content = torch_zip(finished(state), {"0": data})
    for kind in ("torch", "checkpoint"):
        assert _found(reading_of(kind, content)) == (2, 1, {"loss": 1, "fc.weight": 2})


def test_nan_and_infinity_are_told_apart_in_every_short_type():
    halves = struct.pack("<65536H", *range(65536))
    values = [value for (value,) in struct.iter_unpack("<e", halves)]
    assert count_nonfinite(halves, "F16") == (sum(map(math.isnan, values)), sum(map(math.isinf, values)))
    assert count_nonfinite(halves, "BF16") == (254, 2)
    assert count_nonfinite(bytes(range(256)), "F8_E5M2") == (6, 2)
    assert count_nonfinite(bytes(range(256)), "F8_E4M3") == (2, 0)
