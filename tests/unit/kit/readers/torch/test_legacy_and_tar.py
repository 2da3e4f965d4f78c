"""The old torch format and tar shards: true ones are read, lying ones are refused with the reason."""

from __future__ import annotations

import io
import math
import pickle
import struct
import tarfile

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import (
    LEGACY_MAGIC,
    TAR_END,
    called,
    finished,
    legacy_storage,
    legacy_tensor,
    mapping,
    number,
    tar_member,
    text,
    torch_legacy,
)

SIX = struct.pack("<q", 6) + b"\0" * 24


def test_a_true_legacy_checkpoint_is_read(reading_of):
    reading = reading_of("torch", torch_legacy())
    assert (reading.kind, reading.tensors, reading.numel, reading.keys) == ("torch", 1, 6, ("model", "step"))
    assert "no checksum" in reading.notes[0]


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (torch_legacy(raw=SIX[:-1]), "cut short"),
        (torch_legacy(raw=SIX + b"x"), "1 bytes lie behind the last storage"),
        (torch_legacy(raw=struct.pack("<q", 7) + b"\0" * 28), "has 7 elements, the pickle says 6"),
        (torch_legacy(raw=struct.pack("<q", 2**62)), "the pickle says 6"),
        (torch_legacy(keys=("0", "1")), "lists 2 storages"),
        (torch_legacy(keys=("0", "0")), "lists 2 storages"),
        (torch_legacy(keys=()), "lists 0 storages"),
        (torch_legacy(protocol=1002), "protocol version is 1002"),
        (torch_legacy(legacy_tensor(numel=2**62), raw=struct.pack("<q", 2**62)), "cut short"),  # 16 EB claimed
        (torch_legacy(legacy_tensor(numel=5)), "reaches element 5 of a storage of 5"),
        (torch_legacy(legacy_storage("0", 6, "torch.EvilStorage")), "unknown type"),
        (torch_legacy(legacy_storage("0", 6, view=number(1))), "or to a view"),
        (torch_legacy(legacy_storage("0", -1)), "natural number"),
        (torch_legacy(mapping({"a": legacy_tensor(), "b": legacy_storage("0", 7)})), "named twice"),
        (LEGACY_MAGIC, "cut short"),
    ],
)
def test_lying_legacy_checkpoints_are_refused(refusal_of, content, seen):
    assert seen in refusal_of("torch", content)


@pytest.mark.parametrize(("value", "seen"), [(1.5, "finite: all of 24 bytes"), (math.nan, "NOT FINITE: 1 NaN")])
def test_a_legacy_checkpoints_numbers_are_scanned(reading_of, value, seen):
    raw = struct.pack("<q6f", 6, 0.0, 1.0, 2.0, value, 4.0, 5.0)
    reading = reading_of("checkpoint", torch_legacy(raw=raw))
    assert reading.notes[0].startswith(seen)


def test_a_legacy_pickle_that_would_run_a_command_runs_nothing(reading_of, tmp_path):
    canary = tmp_path / "canary"
    attack = called("os.system", text(f"touch '{canary}'"))
    pickle.loads(finished(attack))
    assert canary.exists()  # it does fire where pickles are trusted
    canary.unlink()
    for place in ("value", "sizes"):
        value = mapping({"model": legacy_tensor(), "evil": attack})
        content = torch_legacy(value)
        if place == "sizes":
            content = torch_legacy().replace(finished(number(1001)), finished(number(1001)) + finished(attack), 1)
        try:
            reading = reading_of("torch", content)
            assert "os.system" in reading.opaque[0]
        except Exception as refused:  # noqa: BLE001 - any refusal will do here; what counts is the canary
            assert type(refused).__name__ == "Unreadable"
        assert not canary.exists()


def test_a_legacy_pickle_of_endless_operations_is_stopped(refusal_of):
    content = LEGACY_MAGIC + finished(number(1001)) + b"\x80\x02" + b"N0" * 50_000 + b"N."
    assert "more than 1000 operations" in refusal_of("torch", content, Limits(max_pickle_ops=1000))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_tars_that_python_writes_are_read(reading_of, form):
    buffer = io.BytesIO()
    long = "d" * 90 + "/" + "n" * 90 + ".cls" if form != tarfile.USTAR_FORMAT else "b/0002.cls"
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("images")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in ("images/0001.jpg", long, "./images/图.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 700
            archive.addfile(member, io.BytesIO(b"x" * 700))
    reading = reading_of("tar", buffer.getvalue())
    assert (reading.kind, reading.numel) == ("tar", 4)
    assert {"jpg", "cls"} <= set(reading.keys)


def _linked(kind: bytes) -> bytes:
    return tar_member(b"link", kind=kind) + TAR_END


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (tar_member(b"../../etc/passwd", b"x") + TAR_END, "segment '..' is not allowed"),
        (tar_member(b"/etc/passwd", b"x") + TAR_END, "absolute"),
        (tar_member(b"long", b"../" * 40 + b"evil", kind=b"L") + tar_member(b"a", b"x") + TAR_END, "path '../../"),
        (tar_member(b"pax", b"20 path=/etc/passwd\n", kind=b"x") + tar_member(b"a", b"x") + TAR_END, "absolute"),
        (tar_member(b"pax", b"15 size=999999\n", kind=b"x") + tar_member(b"a", b"x") + TAR_END, "size is given by"),
        (tar_member(b"pax", b"10 path=b\n", kind=b"g") + tar_member(b"a", b"x") + TAR_END, "names every member"),
        (tar_member(b"pax", b"15 size=999999\n", kind=b"g") + tar_member(b"a", b"x") + TAR_END, "size is given by"),
        (tar_member(b"pax", b"21 GNU.sparse.name=b\n", kind=b"x") + tar_member(b"a", b"x") + TAR_END, "sparse tar"),
        (tar_member(b"pax", b"22 GNU.sparse.major=1\n", kind=b"g") + tar_member(b"a", b"x") + TAR_END, "sparse tar"),
        (
            tar_member(b"l", b"one", kind=b"L")
            + tar_member(b"pax", b"10 path=b\n", kind=b"x")
            + tar_member(b"a", b"x")
            + TAR_END,
            "two extensions name one member",
        ),
        (tar_member(b"a\x1b[2J", b"x") + TAR_END, "control characters"),
        (tar_member(b"pax", b"99 path=a\n", kind=b"x") + tar_member(b"a", b"x") + TAR_END, "malformed"),
        (tar_member(b"pax", b"0 =\n", kind=b"x") + tar_member(b"a", b"x") + TAR_END, "malformed"),
        (_linked(b"1"), "links and devices are refused"),
        (_linked(b"2"), "links and devices are refused"),
        (_linked(b"3"), "links and devices are refused"),
        (_linked(b"6"), "links and devices are refused"),
        (_linked(b"S"), "links and devices are refused"),
        (tar_member(b"a", size=b"77777777777\0") + TAR_END, "cut short"),
        (tar_member(b"a", size=b"-0000000001\0") + TAR_END, "no octal number"),
        (tar_member(b"a", size=b"\x80" + b"\xff" * 11) + TAR_END, "no octal number"),
        (tar_member(b"a", b"x", checksum=1) + TAR_END, "its checksum is wrong"),
        (tar_member(b"a", b"x") + b"\0" * 512, "ends with two empty blocks"),
        (tar_member(b"a", b"x"), "cut short"),
        (tar_member(b"a", b"x") + TAR_END + b"hidden".ljust(512, b"\0"), "behind the end"),
        (b"PK\3\4" + b"x" * 2000, "no octal number"),
    ],
)
def test_lying_tars_are_refused(refusal_of, content, seen):
    assert seen in refusal_of("tar", content)


def test_a_tar_of_too_many_members_is_refused(refusal_of):
    content = tar_member(b"a", b"") * 20 + TAR_END
    assert "more than 10 members" in refusal_of("tar", content, Limits(max_items=10))


# ---------------------------------------------------------------- what tarfile reads otherwise


def test_a_folder_with_bytes_is_refused(refusal_of):
    content = tar_member(b"a/", b"x" * 600, kind=b"5") + tar_member(b"b.txt", b"y") + TAR_END
    assert "the folder a/ has 600 bytes" in refusal_of("tar", content)


def test_an_extension_without_a_member_is_refused(refusal_of):
    content = tar_member(b"a.txt", b"x") + tar_member(b"././@LongLink", b"b.txt\0", kind=b"L") + TAR_END
    assert "belongs to no member" in refusal_of("tar", content)


def test_a_prefix_that_only_some_readers_use_is_refused(refusal_of):
    assert "is not POSIX" in refusal_of("tar", _changed(257, b"ustar  \0", (345, b"etc")) + TAR_END)


@pytest.mark.parametrize(("at", "field"), [(100, b"rw-r--r-"), (136, b"\x0012345678"), (329, b"/000000\0")])
def test_a_number_that_only_some_readers_take_is_refused(refusal_of, at, field):
    assert "no octal number" in refusal_of("tar", _changed(at, field) + TAR_END)


def _changed(at, field, *more):
    """Write a member with other bytes in its header, and a checksum that fits them."""
    block = bytearray(tar_member(b"a.txt", b"x"))
    for begin, value in ((at, field), *more):
        block[begin : begin + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)
