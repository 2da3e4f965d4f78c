"""Files that another reader would see differently: pickles that run there, and look like plain data here."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from typing import Any

import pytest

from leasehold.kit.readers import Limits, Unreadable
from leasehold.kit.readers.pickles.pickle_machine import run_pickle
from leasehold.kit.readers.pickles.plain_world import PlainWorld
from leasehold.kit.readers.pickles.stand_ins import Inert, Kept
from tests.unit.kit.readers.forge import (
    LEGACY_MAGIC,
    Tensor,
    called,
    finished,
    mapping,
    named,
    number,
    text,
    torch_legacy,
    torch_members,
    torch_zip,
    zip_bytes,
)

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

ATTACK = called("os.system", text("true"))
PROTOCOL = finished(number(1001))


# ---------------------------------------------------------------- torch's legacy format: five pickles


@pytest.mark.parametrize("place", ["protocol version", "system facts", "list of storages"])
def test_every_pickle_of_a_legacy_file_is_looked_at(refusal_of, place):
    whole = torch_legacy()
    protocol = LEGACY_MAGIC + PROTOCOL
    facts_end = whole.index(b".", len(protocol)) + 1
    hidden = b"\x80\x02" + ATTACK + b"0"  # run, then dropped: the value that follows is as it should be
    if place == "protocol version":
        content = LEGACY_MAGIC + hidden + PROTOCOL[2:] + whole[len(protocol) :]
    elif place == "system facts":
        content = protocol + hidden + whole[len(protocol) + 2 :]
    else:
        names = whole.index(b"\x80\x02]", facts_end)
        content = whole[:names] + hidden + whole[names + 2 :]
    assert f"{place} names os.system" in refusal_of("torch", content)


def test_a_protocol_that_refers_to_itself_a_million_times_costs_nothing(refusal_of):
    bomb = b"]q\x000" + b"".join(b"](" + b"h%c" % n * 10 + b"eq%c0" % (n + 1) for n in range(30)) + b"h\x1e"
    assert "protocol version is list" in refusal_of("torch", LEGACY_MAGIC + b"\x80\x02" + bomb + b".")


def test_a_legacy_file_that_is_a_tar_too_is_refused(refusal_of):
    facts = b"\x80\x02}" + text("filler") + b"X" + struct.pack("<I", 600) + b"\0" * 600 + b"s" + b"."
    content = bytearray(LEGACY_MAGIC + PROTOCOL + facts + torch_legacy()[len(LEGACY_MAGIC + PROTOCOL) :])
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    with tarfile.open(fileobj=io.BytesIO(bytes(content)), mode="r:") as archive:
        assert archive.getmembers()  # what torch.load tries first
    assert "is a tar and a torch file in one" in refusal_of("torch", bytes(content))


def test_a_legacy_module_is_named(reading_of):
    module = b"(" + text("module") + named("nets.Net") + text("nets.py") + text("class Net: ...") + b"tQ"
    reading = reading_of("torch", torch_legacy(mapping({"net": module, "w": _legacy_tensor()})))
    assert reading.opaque == ("nets.Net",)


def test_the_byte_order_of_a_legacy_file_counts(reading_of):
    nan = struct.pack("<q", 6) + struct.pack(">f", float("nan")) + b"\0" * 20
    little = torch_legacy(raw=nan)
    facts_at = len(LEGACY_MAGIC + PROTOCOL)
    facts_end = little.index(b".", facts_at) + 1
    big = little[:facts_at] + finished(mapping({"little_endian": b"\x89"})) + little[facts_end:]
    assert reading_of("torch", big).numbers.nan == 1
    assert "was written on a big-endian machine" in reading_of("torch", big).notes


def _legacy_tensor() -> bytes:
    from tests.unit.kit.readers.forge import legacy_tensor

    return legacy_tensor()


# ---------------------------------------------------------------- pickles


def test_a_frame_inside_a_frame_is_refused(refusal_of):
    inner = b"\x95" + struct.pack("<Q", 2) + b"N0"
    body = b"}" + inner + b"\x8c\x01a" + b"K\x01s."
    content = b"\x80\x04\x95" + struct.pack("<Q", len(body)) + body
    seen = [_outcome(load, content) for load in (pickle.loads, pickle._loads)]  # type: ignore[attr-defined]
    assert seen[1] == "refused"  # CPython's own two readers differ, or both refuse
    assert "begins a frame at byte" in refusal_of("torch", torch_zip(content))


@pytest.mark.parametrize(
    "path", ["torch.Tensor", "collections.OrderedDict", "builtins.dict", "torch._utils._rebuild_tensor_v2"]
)
def test_setting_the_state_of_a_known_class_is_no_plain_data(refusal_of, path):
    changed = named(path) + mapping({"__reduce__": number(1)}) + b"b"
    assert f"changes {path} itself" in refusal_of("torch", torch_zip(finished(mapping({"x": changed}))))


# ---------------------------------------------------------------- zip


@pytest.mark.parametrize("attributes", [0x10, 0o040755 << 16, 0o120777 << 16])
def test_a_record_that_is_marked_as_a_folder_or_a_link_is_refused(refusal_of, attributes):
    pickle_ = finished(mapping({"w": Tensor().pickle()}))
    content = bytearray(zip_bytes(torch_members(pickle_)))
    entry = content.rindex(b"best/data/0") - 46
    assert content[entry : entry + 4] == b"PK\1\2"
    content[entry + 38 : entry + 42] = struct.pack("<I", attributes)
    assert "'best/data/0' is marked as a folder" in refusal_of("torch", bytes(content))


def test_a_storage_of_two_types_is_refused(refusal_of):
    both = {"a": Tensor().pickle(), "b": Tensor(kind="torch.IntStorage").pickle()}
    assert "named twice with different types" in refusal_of("torch", torch_zip(finished(mapping(both))))


# ---------------------------------------------------------------- numbers that nobody looked at are counted


def _v3(dtype: str, numel: int) -> bytes:
    where = Tensor(numel=numel, kind="torch.storage.UntypedStorage")
    from tests.unit.kit.readers.forge import storage, tuple_of

    hooks = called("collections.OrderedDict")
    parts = (storage("0", where.numel, where.kind), number(0), tuple_of(number(4)), tuple_of(number(1)), b"\x89", hooks)
    return called("torch._utils._rebuild_tensor_v3", *parts, named(f"torch.{dtype}"))


@pytest.mark.parametrize(
    ("dtype", "raw", "bad"),
    [
        ("float8_e4m3fn", b"\x7f\x00\x7e\x01", 1),
        ("float8_e4m3fnuz", b"\x80\x7f\x00\x01", 1),
        ("float8_e5m2", b"\x7c\x7d\x7b\x00", 2),
        ("float8_e5m2fnuz", b"\x80\x7c\x7f\x00", 1),
        ("float8_e8m0fnu", b"\xff\xfe\x00\x80", 1),
        ("complex32", b"\0\0\0\x7e" * 4, 4),
        ("uint16", b"\xff" * 8, 0),
    ],
)
def test_the_numbers_of_an_untyped_storage_are_read_by_their_tensors_type(reading_of, dtype, raw, bad):
    content = torch_zip(finished(mapping({"w": _v3(dtype, len(raw))})), {"0": raw})
    numbers = reading_of("checkpoint", content).numbers
    assert (numbers.bad, numbers.unread) == (bad, "")


def test_numpy_arrays_in_a_checkpoint_are_counted_as_not_looked_at(reading_of):
    array = called("numpy._core.multiarray._reconstruct", named("numpy.ndarray"), b"K\0\x85", b"C\x01b")
    reading = reading_of("checkpoint", torch_zip(finished(mapping({"w": Tensor().pickle(), "rng": array}))))
    assert reading.notes[0] == "finite: all of 24 bytes of floating-point numbers; not looked at: 1 NumPy values"
    assert reading.numbers.unread == "1 NumPy values"


def test_plain_numbers_in_lists_are_looked_at(reading_of):
    losses = b"](G" + struct.pack(">d", 1.5) + b"G" + struct.pack(">d", float("nan")) + b"e"
    reading = reading_of("checkpoint", torch_zip(finished(mapping({"losses": losses}))))
    assert (reading.numbers.nan, reading.numbers.where) == (1, (("plain numbers", 1),))


# ---------------------------------------------------------------- both of CPython's unpicklers agree with ours

_VALUES = [
    b"N",
    b"K\1",
    b"K\2",
    b"\x88",
    b"\x89",
    b"G" + struct.pack(">d", 0.5),
    b"X\1\0\0\0a",
    b"C\1b",
    b"I7\n",
    b"I01\n",
]
_SHAPES = [
    b"(",
    b")",
    b"]",
    b"}",
    b"\x8f",
    b"t",
    b"\x85",
    b"\x86",
    b"\x87",
    b"l",
    b"d",
    b"a",
    b"e",
    b"s",
    b"u",
    b"\x90",
]
_STACK = [
    b"0",
    b"1",
    b"2",
    b"q\0",
    b"q\1",
    b"h\0",
    b"h\1",
    b"\x94",
    b"p2\n",
    b"g2\n",
    b"\x91",
    b"j\1\0\0\0",
    b"r\0\0\0\0",
]
_OTHER = [
    b"\x80\4",
    b"\x95\0\0\0\0\0\0\0\0",
    b"\x95\3\0\0\0\0\0\0\0",
    b"\x95\7\0\0\0\0\0\0\0",
    b"b",
    b"o",
    b"R",
    b"\x81",
    b"\x93",
]
_NOTHING_MORE = object()


def _outcome(load: Any, data: bytes) -> Any:
    try:
        return _shown(load(data))
    except Exception:  # noqa: BLE001  any refusal will do
        return "refused"


def _shown(value: Any, depth: int = 0) -> Any:
    """Describe a value of CPython's, or one of ours, in the same words."""
    if depth > 6:
        return "deep"
    if isinstance(value, Kept) and value.of == "dict":
        value = _dict_of(value.pairs)
    if isinstance(value, Inert):
        return value.of
    if isinstance(value, dict):
        return ("dict", [(_shown(key, depth + 1), _shown(held, depth + 1)) for key, held in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [_shown(item, depth + 1) for item in value])
    if isinstance(value, (set, frozenset, bytearray)):
        return type(value).__name__
    return (type(value).__name__, value)


def _dict_of(pairs: list) -> dict:
    """What a dict makes of these: a key that comes twice keeps its place and takes the last value."""
    made: dict = {}
    for key, value in pairs:
        made[_Key(key)] = value
    return {key.value: value for key, value in made.items()} if not any(_odd(k.value) for k in made) else _Odd(made)


def _odd(key: object) -> bool:
    return isinstance(key, (Inert, tuple))


class _Odd(dict):
    """A dict with keys that are compared by what they hold."""

    def __init__(self, made: dict) -> None:
        super().__init__(made)

    def items(self):  # type: ignore[no-untyped-def]
        return [(key.value, value) for key, value in super().items()]


class _Key:
    def __init__(self, value: object) -> None:
        self.value = value
        self._shown = repr(_shown(value)) if _odd(value) else value

    def __hash__(self) -> int:
        return hash(self._shown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._shown == other._shown


def _ours(data: bytes) -> Any:
    try:
        return _shown(run_pickle(data, PlainWorld("test", Limits()), Limits()))
    except Unreadable:
        return "refused"


@hypothesis.settings(max_examples=1500, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(parts=st.lists(st.sampled_from([*_VALUES * 3, *_SHAPES * 2, *_STACK, *_OTHER]), max_size=20))
def test_neither_of_pythons_unpicklers_reads_another_value_than_ours(parts):
    data = b"\x80\4(" + b"".join(parts) + b"t."
    ours = _ours(data)
    if ours != "refused":
        theirs = [_outcome(pickle.loads, data), _outcome(pickle._loads, data)]  # type: ignore[attr-defined]
        assert {repr(seen) for seen in theirs} <= {repr(ours), repr("refused")}
