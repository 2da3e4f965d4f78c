"""npy and npz written by hand: every header is held against the bytes it claims."""

from __future__ import annotations

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import Member, npy, npy_header, zip_bytes


@pytest.mark.parametrize("version", [1, 2, 3])
def test_npy_of_each_version_is_read(reading_of, version):
    reading = reading_of("npy", npy(version=version))
    assert (reading.tensors, reading.numel) == (1, 6)


@pytest.mark.parametrize(
    "descr, item_bytes",
    [
        ("'|b1'", 1),
        ("'<i8'", 8),
        ("'>u2'", 2),
        ("'<f2'", 2),
        ("'<f16'", 16),
        ("'<c8'", 8),
        ("'|S7'", 7),
        ("'<U3'", 12),
        ("'|V5'", 5),
        ("'<M8[ns]'", 8),
        ("'<m8[25s]'", 8),
        ("[('x', '<f4'), ('y', '<i8', (2, 2)), (('title', 'z'), [('q', '|u1')])]", 37),
    ],
)
def test_npy_item_sizes_are_known(reading_of, descr, item_bytes):
    assert reading_of("npy", npy(b"\0" * (3 * item_bytes), npy_header(descr, "(3,)"))).numel == 3


def test_npy_of_zero_dimensions_and_of_zero_items_are_read(reading_of):
    assert reading_of("npy", npy(b"\0" * 8, npy_header("'<f8'", "()"))).numel == 1
    assert reading_of("npy", npy(b"", npy_header("'<f8'", "(0, 5)"))).numel == 0


@pytest.mark.parametrize("descr", ["'|O'", "[('x', '<f4'), ('y', '|O')]", "('|O', (2,))"])
def test_npy_of_objects_is_refused(refusal_of, descr):
    assert "pickled Python objects" in refusal_of("npy", npy(header=npy_header(descr, "(3,)")))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{}",
        "{'descr': '<f4', 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        npy_header("'<f4'", "[2, 3]"),
        npy_header("'<f4'", "(-2, -3)"),
        npy_header("'<f4'", "(2.0, 3)"),
        npy_header("'<f4'", "(True, 6)"),
        npy_header("'<f4'", "(" + "1, " * 65 + ")"),
        npy_header("'<f3'", "(2, 3)"),
        npy_header("'<f4[ns]'", "(2, 3)"),
        npy_header("'<M8[zz]'", "(2, 3)"),
        npy_header("'<f12'", "(2,)"),
        npy_header("[('x', '<f4'), ('x', '<f4')]", "(3,)"),
        npy_header("[(('x', 'y'), '<f4'), ('x', '<f4')]", "(3,)"),
        npy_header("'<f4'", "(2,\u00a03)"),
        "\u00a0" + npy_header("'<f4'", "(2, 3)"),
        npy_header("'<q4'", "(2, 3)"),
        npy_header("'f'", "(2, 3)"),
        npy_header("3", "(2, 3)"),
        npy_header("[('x',)]", "(2, 3)"),
        npy_header("'<f4'", "(2, 3)") + "; import os",
        npy_header("__import__('os').system('true')", "(2, 3)"),
        npy_header("'<f4'", "(2, 3) * 10 ** 10"),
        npy_header("'<f4'", "(" * 500 + "2" + ",)" * 500),
        npy_header("-" * 5000 + "1", "(2, 3)"),
        npy_header("'<f4'", "(" + "9" * 3000 + ",)"),
        "{[]: 1}",
        "{'descr': '<f4' 'fortran_order': False}",
    ],
)
def test_npy_header_that_is_not_the_one_form_is_refused(refusal_of, header):
    assert refusal_of("npy", npy(header=header))


def test_npy_claiming_ten_gigabytes_is_refused_without_reading_them(refusal_of):
    reason = refusal_of("npy", npy(header=npy_header("'<f8'", "(10, 134217728)")))
    assert "needs 10737418240 bytes" in reason
    assert "has 24" in reason


def test_npy_whose_sizes_multiply_beyond_any_memory_is_refused(refusal_of):
    assert "needs" in refusal_of("npy", npy(header=npy_header("'<f8'", "(" + "9223372036854775807, " * 60 + ")")))


def test_npy_with_bytes_left_over_is_refused(refusal_of):
    assert "needs 24 bytes" in refusal_of("npy", npy(b"\0" * 25))


def test_npy_header_longer_than_the_limit_is_refused(refusal_of):
    padded = npy_header("'<f4'", "(2, 3)") + " " * 70_000
    assert "at most" in refusal_of("npy", npy(header=padded, version=2))
    assert "at most" in refusal_of("npy", b"\x93NUMPY\x02\0\xff\xff\xff\xff" + b" " * 100)


def test_npy_of_unknown_version_or_magic_is_refused(refusal_of):
    assert "version 4.0" in refusal_of("npy", npy(version=4))
    assert "not .npy" in refusal_of("npy", b"\x93NUMPZ" + npy()[6:])


def test_npy_header_that_is_not_text_is_refused(refusal_of):
    assert "not utf-8" in refusal_of("npy", npy(version=3).replace(b"descr", b"des\xff\xff"))


# ---------------------------------------------------------------- npz


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("descriptor", [False, True])
def test_npz_members_are_all_read(reading_of, deflate, descriptor):
    members = [Member(f"{name}.npy", npy(), deflate, descriptor) for name in ("weights", "bias/inner")]
    reading = reading_of("npz", zip_bytes(members))
    assert (reading.tensors, reading.numel, reading.keys) == (2, 12, ("weights", "bias/inner"))


def test_npz_with_one_bad_member_is_refused_by_its_name(refusal_of):
    members = [Member("good.npy", npy()), Member("bad.npy", npy(b"\0" * 23))]
    reason = refusal_of("npz", zip_bytes(members))
    assert "'bad.npy'" in reason
    assert "needs 24 bytes" in reason


def test_npz_with_something_else_in_it_is_refused(refusal_of):
    assert "not an .npy file" in refusal_of("npz", zip_bytes([Member("a.npy", npy()), Member("b.pkl", b"x")]))


def test_npz_of_nothing_is_refused(refusal_of):
    assert "no array" in refusal_of("npz", zip_bytes([]))


def test_npz_of_objects_is_refused(refusal_of):
    member = Member("a.npy", npy(header=npy_header("'|O'", "(3,)")))
    assert "pickled Python objects" in refusal_of("npz", zip_bytes([member]))


def test_npz_large_compressed_member_is_read_in_pieces(reading_of):
    data = bytes(range(256)) * 20_000
    member = Member("a.npy", npy(data, npy_header("'|u1'", f"({len(data)},)")), deflate=True)
    assert reading_of("npz", zip_bytes([member])).numel == len(data)


def test_npz_zeros_that_deflate_a_thousandfold_are_no_bomb(reading_of):
    data = b"\0" * 5_000_000
    member = Member("a.npy", npy(data, npy_header("'|u1'", "(5000000,)")), deflate=True)
    assert reading_of("npz", zip_bytes([member])).numel == 5_000_000


def test_npz_bomb_is_refused_before_it_is_inflated(refusal_of):
    data = b"\0" * 5_000_000
    member = Member("a.npy", npy(data, npy_header("'|u1'", "(5000000,)")), deflate=True)
    assert "zip bomb" in refusal_of("npz", zip_bytes([member]), Limits(ratio_free_bytes=1_000_000))
    assert "at most 1000" in refusal_of("npz", zip_bytes([member]), Limits(max_inflated_bytes=1000))


def test_npz_member_that_inflates_beyond_its_claim_is_stopped_there(refusal_of):
    member = Member("a.npy", b"\0" * 50_000_000, deflate=True, size=1000)
    assert "more than the 1000 bytes" in refusal_of("npz", zip_bytes([member]))


@pytest.mark.parametrize("descr", ["('<f4', (2,))", "'<M8[3s/7]'", "'<f4[ns]'", "'<M8[zz]'", "'<f12'"])
def test_a_dtype_that_numpy_does_not_read_is_refused(refusal_of, descr):
    assert "dtype" in refusal_of("npy", npy(b"\0" * 48, npy_header(descr, "(6,)")))
