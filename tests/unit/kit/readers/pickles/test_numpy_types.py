"""NumPy's types and arrays inside pickles and joblib files: nothing that is bytes to us may be objects to others."""

from __future__ import annotations

import os
import pickle
import struct

import pytest

from tests.unit.kit.readers.forge import torch_zip

_WRAPPER = b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n"
_NEW = _WRAPPER + b")\x81"
_FACTS = {
    "subclass": b"cnumpy\nndarray\n", "shape": b"K\x02\x85", "order": b"VC\n", "allow_mmap": b"\x89", "dtype": b"",
    "numpy_array_alignment_bytes": b"N",
}  # fmt: skip


class Attack:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("echo never",)


def dtype(letters, order=">", size=-1, flags=0, subarray=b"N", names=b"N", fields=b"N"):
    """A pickled dtype with the state that NumPy gives it, or another one."""
    made = b"cnumpy\ndtype\n(V%s\n\x89\x88tR" % letters.encode()
    numbers = tuple(b"J" + struct.pack("<i", number) for number in (size, 1, flags))
    return made + b"(K\x03V%s\n%s%s%s%s%s%stb" % (order.encode(), subarray, names, fields, *numbers)


def record(offset=0, size=8, flags=0, inner=None):
    fields = b"}(Vx\n" + (inner or dtype("f8")) + b"K%c\x86u" % offset
    return dtype("V%d" % size, "|", size, flags, names=b"Vx\n\x85", fields=fields)


def array(kind, data, shape=b"K\x02\x85"):
    """A pickled array as NumPy writes it."""
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR"
    return empty + b"(K\x01" + shape + kind + b"\x89" + data + b"tb"


def raw(data):
    return b"\x8e" + struct.pack("<Q", len(data)) + data


def described(new=_NEW, **facts):
    """A joblib array's description up to the operation that makes joblib read the bytes behind it."""
    pairs = b"".join(b"V%s\n%s" % (name.encode(), value) for name, value in {**_FACTS, **facts}.items())
    return new + b"}(" + pairs + b"ub"


def test_the_numbers_of_a_long_array_are_looked_at(reading_of):
    data = struct.pack(">d", float("nan")) + bytes(8 * 200_000)
    found = reading_of("pickle", b"\x80\x04" + array(dtype("f8"), raw(data), b"J\x41\x0d\x03\0\x85") + b".")
    assert (found.tensors, found.numel, found.numbers.nan, found.numbers.unread) == (1, 200_001, 1, "")


def test_a_bytearray_behind_an_array_is_compared_with_its_shape(reading_of, refusal_of):
    made = b"cnumpy._core.numeric\n_frombuffer\n(\x96%s%s%sK\x02\x85VC\ntR."
    data = struct.pack(">2d", 1.0, float("inf"))
    found = reading_of("pickle", b"\x80\x05" + made % (struct.pack("<Q", 16), data, dtype("f8")))
    assert (found.numbers.inf, found.notes) == (1, ())
    assert "has 8 bytes" in refusal_of("pickle", b"\x80\x05" + made % (struct.pack("<Q", 8), data[:8], dtype("f8")))


@pytest.mark.parametrize("kind", ["pickle", "joblib", "torch"])
@pytest.mark.parametrize(
    ("lie", "seen"),
    [
        (dtype("f8", flags=63), "pointers"),
        (dtype("O8", "|", flags=0), "pointers"),
        (dtype("O8", "|", flags=1), "pointers"),
        (dtype("V8", "|", 8, flags=3), "pointers"),
        (record(inner=dtype("O8", "|", flags=63)), "pointers"),
        (record(offset=200), "outside"),
        (record(size=4), "outside"),
        (record(flags=3), "pointers"),
        (dtype("f8", names=b"Vx\n\x85"), "no record"),
        (dtype("V8", "|", -1), "size"),
        (dtype("V8", "|", 8, subarray=dtype("f8") + b"K\x02\x86"), "outside"),
        (b"cnumpy\ndtype\nVf4,O\n\x85R", "names none"),
        (b"cnumpy\ndtype\nVS\\u00b2\n\x85R", "names none"),
        (b"cnumpy\ndtype\ncbuiltins\nobject\n\x85R", "names none"),
    ],
)
def test_a_numpy_type_that_lies_about_its_bytes_is_refused(refusal_of, kind, lie, seen):
    pickled = b"\x80\x02}Va\n" + lie + b"s."
    assert seen in refusal_of(kind, torch_zip(pickled) if kind == "torch" else pickled)


def test_fields_are_not_changed_behind_the_type_that_is_made_of_them(refusal_of):
    fields = b"}q\x05Vx\n" + dtype("f8") + b"K\0\x86s"
    made = dtype("V8", "|", 8, names=b"Vx\n\x85", fields=fields)
    assert "changes the fields" in refusal_of("pickle", b"\x80\x02" + made + b"h\x05Vy\n" + dtype("f8") + b"K\0\x86s.")


@pytest.mark.parametrize("data", [raw(bytes(16)), b"]"])
def test_object_arrays_of_bytes_and_number_arrays_of_lists_are_refused(refusal_of, data):
    kind = dtype("f8") if data == b"]" else dtype("O8", "|", flags=63)
    assert "NumPy writes neither" in refusal_of("pickle", b"\x80\x04" + array(kind, data) + b".")


def test_a_joblib_record_with_objects_is_the_pickle_joblib_takes_it_for(reading_of, refusal_of):
    objects = record(flags=27, inner=dtype("O8", "|", flags=63))
    attack = pickle.dumps([Attack()], 2)
    assert reading_of("joblib", b"\x80\x02" + described(dtype=objects) + attack + b".").opaque == ("posix.system",)
    hidden = record(size=len(attack) // 2, flags=27)
    assert "pointers" in refusal_of("joblib", b"\x80\x02" + described(dtype=hidden) + attack + b".")


@pytest.mark.parametrize(
    ("new", "facts"),
    [
        (_WRAPPER + b"cnumpy\nndarray\nK\x02\x85VC\nNt\x81".replace(b"t", b"\x87"), {}),
        (b"ccopyreg\n_reconstructor\n(" + _WRAPPER + b"cbuiltins\nlist\n]tR", {}),
        (b"ccollections\ndefaultdict\n" + _WRAPPER + b"\x85R", {}),
        (b"ctorch._utils\n_rebuild_parameter\n(" + _NEW + b"NNtR", {}),
        (_NEW, {"read": b"cbuiltins\ndict\n"}),
        (_NEW, {"numpy_array_alignment_bytes": b"cbuiltins\ndict\n)R"}),
        (_NEW + b"}(Vdtype\n" + dtype("i1") + b"ub", {}),
        (_WRAPPER + b"N}Vnumpy_array_alignment_bytes\nK\x10s\x86b0" + _NEW, {}),
        (_NEW, {"dtype\nVx": b"N"}),
    ],
)
def test_a_description_of_an_array_that_joblib_would_not_write_is_refused(refusal_of, new, facts):
    data = b"\x80\x02" + described(new, **{"dtype": dtype("f8"), **facts}) + bytes(16) + b"."
    assert refusal_of("joblib", data)


@pytest.mark.parametrize("new", [_NEW, b"ccopy_reg\n_reconstructor\n(" + _WRAPPER + b"c__builtin__\nobject\nNtR"])
def test_a_description_as_joblib_writes_it_is_read(reading_of, new):
    data = struct.pack(">2d", 1.0, float("nan"))
    found = reading_of("joblib", b"\x80\x02" + described(new, dtype=dtype("f8")) + data + b".")
    assert (found.tensors, found.numel, found.numbers.nan, found.opaque) == (1, 2, 1, ())


def test_a_joblib_file_named_as_a_pickle_is_told_how_to_be_read(refusal_of):
    data = b"\x80\x02" + described(dtype=dtype("f8")) + bytes(16) + b"."
    assert "loads: joblib" in refusal_of("pickle", data)
