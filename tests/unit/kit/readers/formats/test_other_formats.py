"""Files of other libraries: what is refused, what is opaque, and what is said to be unread."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import zipfile
import zlib

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import checkpoint


class Attack:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("echo never",)


def tar_gz(name="a.json", data=b"{}"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["pickle", "joblib"])
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_that_would_run_code_names_it_and_runs_nothing(reading_of, capfd, kind, protocol):
    assert reading_of(kind, pickle.dumps({"a": Attack()}, protocol)).opaque == ("%s.system" % os.name,)
    assert capfd.readouterr().out == ""


def test_a_pickle_refuses_what_lies_outside_of_it(refusal_of):
    assert "outside of it" in refusal_of("pickle", b"\x80\x02X\x01\0\0\0aQ.")


def test_a_torch_file_named_as_a_pickle_is_read_as_torch(reading_of):
    assert reading_of("pickle", checkpoint()).kind == "torch"


def test_nan_in_a_pickle_is_found_by_its_key(reading_of):
    numbers = reading_of("pickle", pickle.dumps({"loss": float("nan"), "lr": 0.5})).numbers
    assert (numbers.nan, numbers.where) == (1, (("loss", 1),))


def test_a_packed_pickle_is_named(refusal_of):
    assert "gzip" in refusal_of("pickle", gzip.compress(pickle.dumps(1)))


def test_joblib_reads_every_packing_to_its_last_byte(reading_of, refusal_of):
    packed = zlib.compress(pickle.dumps({"a": 1}))
    assert reading_of("joblib", packed).keys == ("a",)
    assert "behind the end" in refusal_of("joblib", packed + b"x")
    assert "cut short" in refusal_of("joblib", packed[:-1])
    assert "lz4" in refusal_of("joblib", b"\x04\x22\x4d\x18" + bytes(20))


def test_a_bomb_is_refused_before_it_fills_the_memory(refusal_of):
    bomb = gzip.compress(bytes(4 << 20))
    assert "bomb" in refusal_of("tar.gz", bomb, Limits(ratio_free_bytes=1 << 20))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a\nb"])
def test_a_packed_tar_with_an_unsafe_name_is_refused(refusal_of, name):
    refusal_of("tar.gz", tar_gz(name))


def test_a_damaged_packed_tar_is_refused_by_its_checksum(refusal_of):
    data = bytearray(tar_gz())
    data[-6] ^= 1  # the checksum itself
    assert "does not inflate" in refusal_of("tar.gz", bytes(data))


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a\\b"])
def test_a_zip_with_an_unsafe_name_is_refused(refusal_of, name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x" * len(name)), b"1")
    refusal_of("zip", buffer.getvalue().replace(b"x" * len(name), name.encode()))


def test_a_zip_with_a_wrong_byte_is_refused(refusal_of):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"payload")
    assert "CRC" in refusal_of("zip", buffer.getvalue().replace(b"payload", b"paXload"))


def test_a_zip_folder_with_content_is_refused(refusal_of):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("ab", b"payload")
    assert "named as a folder" in refusal_of("zip", buffer.getvalue().replace(b"ab", b"a/"))


# ---------------------------------------------------------------- yaml


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "- 1\n- a: b\n  c:\n  - d\n",
        "a: &x [1, {b: c}]\nd: *x\n",
        "|\n text\n",
        "--- a\n--- b\n...\n",
        "? a\n: b\n",
        "a: 'it''s'\nb: \"\\n\\u00e9\"\n",
        "a: http://x:1/#b\n",
        "{a: , b: [1, 2, ]}\n",
        "a:\n\n  - b # c\n",
        "%YAML 1.1\n---\na: !!int 1\n",
        "a: >-\n  x\n\n  y\nb:\n",
        "é: 中\n",
        "a: one\n  two\nb: -1\n",
    ],
)
def test_yaml_that_is_right_is_read(reading_of, text):
    assert reading_of("yaml", text).opaque == ()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a: b: c\n", "a key where none may stand"),
        ("a:\n\t- b\n", "a tab"),
        ("a: [b\n", "cut short"),
        ("a: 'b\n", "no end"),
        ("a: *b\n", "no anchor"),
        ("%TAG ! tag:x,2000:\n--- a\n", "%TAG"),
        ("a: 1\n b: 2\n", "a key"),
        ("a: @b\n", "cannot begin"),
        ("- a\nb: c\n", "stands outside"),
        ('a: "\\q"\n', "escape"),
        ("[" * 200 + "]" * 200, "nests"),
        ("a: \x01\n", "does not allow"),
        ("a: \x85\n", "some readers only"),
        (b"a: \xff\n", "UTF-8"),
    ],
)
def test_yaml_that_is_wrong_is_refused_by_its_line(refusal_of, text, seen):
    assert seen in refusal_of("yaml", text)


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!<tag:yaml.org,2002:python/name:os.system>", "!mine"]
)
def test_a_yaml_tag_that_makes_objects_is_opaque(reading_of, tag):
    assert reading_of("yaml", "a: %s [x]\n" % tag).opaque == ("the YAML tag %s" % tag,)


def test_yaml_says_what_it_saw(reading_of):
    reading = reading_of("yaml", "a: &x .nan\nb: *x\na: -.inf")
    assert (reading.numbers.nan, reading.numbers.inf) == (1, 1)
    assert [note.split()[0] for note in reading.notes] == ["1", "1", "does"]


def test_yaml_aliases_of_aliases_cost_nothing(reading_of):
    lines = ["a0: &a0 [x, x]"] + ["a%d: &a%d [*a%d, *a%d]" % (n, n, n - 1, n - 1) for n in range(1, 100)]
    assert reading_of("yaml", "\n".join(lines)).keys[-1] == "a99"
