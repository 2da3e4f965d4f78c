"""Zips that would show two readers two different archives, or reach outside themselves."""

from __future__ import annotations

import struct
import zlib

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import Member, npy, torch_members, with_member, zip_bytes
from tests.unit.kit.readers.forge import checkpoint as true_checkpoint

NPY = npy()


@pytest.mark.parametrize(
    "name",
    [
        "../a.npy",
        "x/../../a.npy",
        "..\\a.npy",
        "a\0.npy",
        "a\n.npy",
        "a\x1b[2J.npy",
        "a" * 2000 + ".npy",
        b"\xff\xfe.npy",
    ],
)
def test_names_that_leave_the_archive_or_cannot_be_shown_are_refused(refusal_of, name):
    assert "name" in refusal_of("npz", zip_bytes([Member(name, NPY)]))


@pytest.mark.parametrize("key", ["a:b", "layer/w", "/layer/w", "a//b", "a\\b", "./a", "c:"])
def test_a_key_may_look_like_a_path_since_nothing_is_unpacked(reading_of, key):
    assert reading_of("npz", zip_bytes([Member(key + ".npy", NPY)])).keys == (key,)


@pytest.mark.parametrize("name", ["", "folder/"])
def test_a_member_that_is_no_array_is_refused(refusal_of, name):
    assert "not an .npy file" in refusal_of("npz", zip_bytes([Member(name, NPY)]))


def test_a_name_given_twice_is_refused(refusal_of):
    assert "twice" in refusal_of("npz", zip_bytes([Member("a.npy", NPY), Member("a.npy", NPY)]))


def test_a_local_header_of_another_name_is_refused(refusal_of):
    reason = refusal_of("npz", zip_bytes([Member("a.npy", NPY, local_name=b"b.npy")]))
    assert "'a.npy'" in reason
    assert "b'b.npy'" in reason


def test_a_local_header_of_another_size_is_refused(refusal_of):
    assert "disagree" in refusal_of("npz", zip_bytes([Member("a.npy", NPY, local_size=5)]))


def test_a_descriptor_that_disagrees_is_refused(refusal_of):
    content = zip_bytes([Member("a.npy", NPY, descriptor=True)])
    at = content.index(b"PK\7\x08")
    broken = content[: at + 4] + b"\0\0\0\0" + content[at + 8 :]
    assert "disagrees" in refusal_of("npz", broken)


def test_entries_that_share_bytes_are_refused(refusal_of):
    members = [Member("a.npy", NPY), Member("a.npy".replace("a", "b"), NPY, offset=0)]
    assert "overlaps" in refusal_of("npz", zip_bytes(members))


def test_an_entry_quoting_the_whole_of_the_next_is_refused(refusal_of):
    """The quine-like bomb: the first entry's contents contain the second entry with its header."""
    second = zip_bytes([Member("b.npy", NPY)])
    inner = second[: 30 + 5 + len(NPY)]
    first = Member("a.npy", inner)
    members = [first, Member("b.npy", NPY, offset=30 + 5)]
    content = zip_bytes(members)
    assert "overlaps" in refusal_of("npz", content)


def test_an_entry_reaching_into_the_directory_is_refused(refusal_of):
    member = Member("a.npy", NPY, size=len(NPY) + 40)
    assert "inside the directory" in refusal_of("npz", zip_bytes([member]))


@pytest.mark.parametrize(
    "changes, seen",
    [
        ({"gap": b"hidden"}, "between its last entry"),
        ({"prefix": b"#!/bin/sh\n"}, "leaves 10 bytes"),
        ({"comment": b"note"}, "end record is missing"),
        ({"suffix": b"\0"}, "end record is missing"),
    ],
)
def test_bytes_that_belong_to_no_entry_are_refused(refusal_of, changes, seen):
    assert seen in refusal_of("npz", zip_bytes([Member("a.npy", NPY)], **changes))


def test_a_second_end_record_hidden_in_a_comment_is_refused(refusal_of):
    decoy = zip_bytes([Member("evil.npy", NPY)])
    assert refusal_of("npz", zip_bytes([Member("a.npy", NPY)], comment=decoy))


def test_a_directory_that_claims_more_entries_than_it_has_is_refused(refusal_of):
    content = bytearray(zip_bytes([Member("a.npy", NPY)]))
    content[-14:-10] = struct.pack("<HH", 2, 2)
    assert "ends inside an entry" in refusal_of("npz", bytes(content))


def test_a_directory_that_hides_an_entry_is_refused(refusal_of):
    content = bytearray(zip_bytes([Member("a.npy", NPY), Member("b.npy", NPY)]))
    content[-14:-10] = struct.pack("<HH", 1, 1)
    assert "after its 1 entries" in refusal_of("npz", bytes(content))


def test_more_entries_than_the_limit_are_refused_by_their_claim(refusal_of):
    content = zip_bytes([Member(f"{i}.npy", NPY) for i in range(5)])
    assert "5 entries" in refusal_of("npz", content, Limits(max_zip_entries=4))


def test_damaged_contents_are_refused_by_their_crc(refusal_of):
    content = bytearray(zip_bytes([Member("a.npy", NPY)]))
    content[30 + 5 + len(NPY) - 1] ^= 1
    assert "damaged" in refusal_of("npz", bytes(content))


def test_a_deflate_stream_that_is_broken_or_cut_is_refused(refusal_of):
    good = Member("a.npy", NPY, deflate=True).stored()
    for raw in (b"\xff" * 20, good[:-4], good + b"more", b""):
        assert "zip entry 'a.npy'" in refusal_of("npz", zip_bytes([Member("a.npy", NPY, deflate=True, raw=raw)]))


@pytest.mark.parametrize("changes", [{"flags": 1}, {"flags": 0x40}, {"flags": 0x2000}, {"method": 12}, {"method": 99}])
def test_encryption_and_rare_methods_are_refused(refusal_of, changes):
    assert "flags" in refusal_of("npz", zip_bytes([Member("a.npy", NPY, **changes)]))


def test_a_malformed_extra_area_is_refused(refusal_of):
    for extra in (b"\1\0\xff\xff", b"\1", struct.pack("<HHHH", 7, 0, 7, 0)):
        assert "extra area" in refusal_of("npz", zip_bytes([Member("a.npy", NPY, central_extra=extra)]))


def test_a_64_bit_size_that_is_announced_and_absent_is_refused(refusal_of):
    member = Member("a.npy", NPY, size=0xFFFFFFFF, deflate=True)
    assert "64-bit" in refusal_of("npz", zip_bytes([member]))


def _with_zip64_end(content: bytes, lie: int = 0) -> bytes:
    count, size, start = struct.unpack("<HII", content[-12:-2])
    wide = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start + lie)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(content) - 22, 1)
    return content[:-22] + wide + locator + content[-22:]


def test_64_bit_end_records_are_read(reading_of):
    assert reading_of("npz", _with_zip64_end(zip_bytes([Member("a.npy", NPY)]))).tensors == 1


def test_end_records_that_disagree_are_refused(refusal_of):
    assert "disagree" in refusal_of("npz", _with_zip64_end(zip_bytes([Member("a.npy", NPY)]), lie=1))


def test_a_zip64_locator_that_points_elsewhere_is_refused(refusal_of):
    content = bytearray(_with_zip64_end(zip_bytes([Member("a.npy", NPY)])))
    content[-22 - 12] ^= 4
    assert "locator" in refusal_of("npz", bytes(content))


# ---------------------------------------------------------------- what only torch archives forbid


def _members():
    from tests.unit.kit.readers.forge import Tensor, finished, mapping

    return torch_members(finished(mapping({"w": Tensor().pickle()})))


def test_torch_records_that_are_compressed_are_refused(refusal_of):
    members = with_member(_members(), "data/0", deflate=True)
    assert "compressed" in refusal_of("torch", zip_bytes(members))


def test_torch_records_outside_the_folder_are_refused(refusal_of):
    assert "outside" in refusal_of("torch", zip_bytes([*_members(), Member("other/data/0", b"")]))


def test_torch_records_that_differ_only_in_case_are_refused(refusal_of):
    assert "case" in refusal_of("torch", zip_bytes([*_members(), Member("best/DATA.pkl", b"N.")]))


def test_torch_record_with_a_flipped_bit_is_refused(refusal_of):
    content = bytearray(true_checkpoint())
    at = content.index(b"best/data/0") + len(b"best/data/0")
    content[at + 5] ^= 0x10
    assert "'best/data/0' is damaged" in refusal_of("torch", bytes(content))


def test_torch_archive_without_any_crc_is_read_and_noted(reading_of):
    members = [with_member([m], m.name, crc=0)[0] for m in _members()]
    assert "no CRCs" in reading_of("torch", zip_bytes(members)).notes[0]


def test_torch_archive_with_some_crcs_missing_is_refused(refusal_of):
    assert zlib.crc32(b"\0" * 24) != 0
    assert "damaged" in refusal_of("torch", zip_bytes(with_member(_members(), "data/0", crc=0)))
