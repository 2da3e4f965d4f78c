"""Torch checkpoints written by hand: every tensor must lie in a storage that is there."""

from __future__ import annotations

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import (
    Member,
    Tensor,
    called,
    checkpoint,
    finished,
    mapping,
    named,
    number,
    storage,
    text,
    torch_members,
    torch_zip,
    tuple_of,
    zip_bytes,
)

SIX_FLOATS = {"0": b"\0" * 24}


def saved(**items: bytes) -> bytes:
    return torch_zip(finished(mapping(items)))


def test_a_checkpoint_is_read_with_its_keys_and_counts(reading_of):
    reading = reading_of("torch", checkpoint())
    assert (reading.tensors, reading.numel) == (2, 8)
    assert reading.keys == ("model", "step", "names")
    assert reading.opaque == ()
    assert reading.notes == ()


def test_tied_weights_and_views_share_a_storage(reading_of):
    whole = Tensor().pickle()
    items = {
        "a": whole,
        "b": whole,
        "transposed": Tensor(size=(3, 2), stride=(1, 3)).pickle(),
        "expanded": Tensor(size=(100, 6), stride=(0, 1)).pickle(),
        "last": Tensor(size=(), stride=(), offset=5).pickle(),
    }
    assert reading_of("torch", saved(**items)).tensors == 5


def test_tensors_without_elements_are_read_wherever_they_point(reading_of):
    assert reading_of("torch", saved(w=Tensor(size=(0, 3), stride=(3, 1), offset=900).pickle())).numel == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"size": (2, 4)},
        {"size": (3, 3)},
        {"stride": (4, 1)},
        {"offset": 1},
        {"offset": 2**62},
        {"size": (), "stride": (), "offset": 6},
        {"size": (2**40, 2**40)},
        {"size": (2,), "stride": (2**62,)},
    ],
)
def test_a_tensor_that_reaches_outside_its_storage_is_refused(refusal_of, changes):
    assert "of a storage of 6" in refusal_of("torch", saved(w=Tensor(**changes).pickle()))


@pytest.mark.parametrize(
    "changes",
    [
        {"size": (-2, 3)},
        {"stride": (-3, 1)},
        {"offset": -1},
        {"size": (2**64, 1)},
        {"size": (2,)},
        {"size": (1,) * 65, "stride": (1,) * 65},
    ],
)
def test_a_tensor_with_impossible_numbers_is_refused(refusal_of, changes):
    assert "a tensor" in refusal_of("torch", saved(w=Tensor(**changes).pickle()))


def test_a_tensor_claiming_ten_gigabytes_is_refused_by_its_record(refusal_of):
    reason = refusal_of("torch", saved(w=Tensor(numel=2_684_354_560, size=(2_684_354_560,), stride=(1,)).pickle()))
    assert "need 10737418240 bytes, its record has 24" in reason


def test_a_storage_whose_record_is_missing_is_refused(refusal_of):
    assert "not in the archive" in refusal_of("torch", saved(w=Tensor(key="1").pickle()))


def test_a_storage_key_that_is_a_path_finds_nothing(refusal_of):
    assert "not in the archive" in refusal_of("torch", saved(w=Tensor(key="../data.pkl").pickle()))


def test_untyped_storages_are_measured_by_the_tensors_dtype(reading_of, refusal_of):
    def v3(dtype: str, count: int) -> bytes:
        sizes = tuple_of(number(count)), tuple_of(number(1))
        where = storage("0", 24, "torch.storage.UntypedStorage")
        return called(
            "torch._utils._rebuild_tensor_v3", where, number(0), *sizes, b"\x89", b"N", named(f"torch.{dtype}")
        )

    assert reading_of("torch", saved(w=v3("float8_e4m3fn", 24))).numel == 24
    assert reading_of("torch", saved(w=v3("uint16", 12))).numel == 12
    assert "of a storage of 12" in refusal_of("torch", saved(w=v3("uint16", 13)))
    assert "unknown" in refusal_of("torch", saved(w=v3("float3", 1)))


@pytest.mark.parametrize(
    "kind, item_bytes",
    [("Double", 8), ("Half", 2), ("BFloat16", 2), ("Long", 8), ("Bool", 1), ("ComplexDouble", 16), ("QInt32", 4)],
)
def test_storage_types_have_their_sizes(reading_of, kind, item_bytes):
    numel = 48 // item_bytes
    tensor = Tensor(numel=numel, size=(numel,), stride=(1,), kind=f"torch.{kind}Storage")
    content = torch_zip(finished(mapping({"w": tensor.pickle()})), {"0": b"\0" * 48})
    assert reading_of("torch", content).numel == numel


def test_parameters_and_subclasses_are_their_tensor(reading_of):
    tensor = Tensor().pickle()
    parameter = called("torch._utils._rebuild_parameter", tensor, b"\x88", called("collections.OrderedDict"))
    inner = tuple_of(storage("0", 6), number(0), tuple_of(number(6)), tuple_of(number(1)), b"\x89", b"N")
    subclass = called(
        "torch._tensor._rebuild_from_type_v2",
        named("torch._utils._rebuild_tensor_v2"),
        named("torch.nn.parameter.Buffer"),
        inner,
        b"}",
    )
    reading = reading_of("torch", saved(p=parameter, s=subclass))
    assert (reading.tensors, reading.opaque) == (2, ())


def test_a_subclass_rebuilt_by_itself_is_refused(refusal_of):
    function = named("torch._tensor._rebuild_from_type_v2")
    reason = refusal_of("torch", saved(w=called("torch._tensor._rebuild_from_type_v2", function, b"N", b")", b"N")))
    assert "not a rebuild function" in reason


@pytest.mark.parametrize(
    "identity",
    [
        text("storage"),
        tuple_of(text("storage")),
        tuple_of(text("module"), named("torch.FloatStorage"), text("0"), text("cpu"), number(6)),
        tuple_of(text("storage"), named("os.system"), text("0"), text("cpu"), number(6)),
        tuple_of(text("storage"), text("torch.FloatStorage"), text("0"), text("cpu"), number(6)),
        tuple_of(text("storage"), named("torch.FloatStorage"), number(0), text("cpu"), number(6)),
        tuple_of(text("storage"), named("torch.FloatStorage"), text("0"), text("cpu"), number(-6)),
        tuple_of(text("storage"), named("torch.FloatStorage"), text("0"), text("cpu"), b"\x88"),
        tuple_of(text("storage"), named("torch.FloatStorage"), text("0"), text("cpu"), number(6), b"N"),
    ],
)
def test_an_outside_object_that_is_no_storage_is_refused(refusal_of, identity):
    assert refusal_of("torch", saved(w=identity + b"Q"))


def test_a_textual_persistent_id_is_refused(refusal_of):
    assert "outside object" in refusal_of("torch", saved(w=b"Pstorage\n"))


@pytest.mark.parametrize("arguments", [[], [b"N"] * 3, [b"N", number(0), b")", b")"], [text("x")] * 4])
def test_a_tensor_rebuilt_from_nonsense_is_refused(refusal_of, arguments):
    assert refusal_of("torch", saved(w=called("torch._utils._rebuild_tensor_v2", *arguments)))


def test_unused_records_are_noted(reading_of):
    content = torch_zip(finished(mapping({"w": Tensor().pickle()})), {"0": b"\0" * 24, "1": b"abc"})
    assert "1 records under data/" in reading_of("torch", content).notes[0]


def test_records_of_no_known_name_are_noted(reading_of):
    members = torch_members(finished(mapping({"w": Tensor().pickle()})))
    assert "'extra'" in reading_of("torch", zip_bytes([*members, Member("best/extra", b"x")])).notes[0]


def test_tensors_on_the_meta_device_are_noted(reading_of):
    rebuild = "torch._utils._rebuild_meta_tensor_no_storage"
    meta = called(rebuild, named("torch.float32"), tuple_of(number(3)), tuple_of(number(1)), b"\x89")
    assert "no data" in " ".join(reading_of("torch", saved(w=meta)).notes)


def test_a_checkpoint_without_tensors_is_noted(reading_of):
    assert "holds no tensors" in reading_of("torch", torch_zip(finished(b"}"), {})).notes


def test_unknown_classes_are_named_and_inert(reading_of):
    namespace = called("argparse.Namespace") + mapping({"lr": number(3)}) + b"b"
    model = named("my.models.Net") + b")\x81" + mapping({"weight": Tensor().pickle()}) + b"b"
    reading = reading_of("torch", saved(args=namespace, model=model))
    assert reading.opaque == ("argparse.Namespace", "my.models.Net")
    assert reading.tensors == 1


def test_opaque_names_are_bounded_and_fit_for_a_terminal(reading_of):
    names = b"".join(named(f"m.C{i}") + b"0" for i in range(30)) + named("m.\x1b[2J") + b"0"
    reading = reading_of("torch", torch_zip(finished(names + b"}")), Limits(max_opaque=10))
    assert len(reading.opaque) == 10
    assert "only 10" in " ".join(reading.notes)
    assert reading_of("torch", torch_zip(finished(named("m.\x1b[2J") + b"0}"))).opaque == ("m.\\x1b[2J",)


def test_plain_python_and_numpy_values_are_not_opaque(reading_of):
    dtype = called("numpy.dtype", text("f8"), b"\x89", b"\x88")
    encoded = called("_codecs.encode", text("abc"), text("latin1"))
    items = {
        "defaults": called("collections.defaultdict", named("__builtin__.list")),
        "frozen": called("__builtin__.frozenset", b"]"),
        "complex": called("__builtin__.complex", number(1), number(2)),
        "raw": called("__builtin__.bytearray", encoded),
        "scalar": called("numpy.core.multiarray.scalar", dtype, encoded),
        "array": called("numpy._core.multiarray._reconstruct", named("numpy.ndarray"), tuple_of(number(0)), encoded),
        "size": called("torch.Size", tuple_of(number(2))),
        "device": called("torch.device", text("cuda"), number(0)),
        "dtype": named("torch.bfloat16"),
        "layout": called("torch.serialization._get_layout", text("torch.strided")),
        "range": called("__builtin__.xrange", number(0), number(3), number(1)),
    }
    assert reading_of("torch", saved(**items)).opaque == ()


def test_ordered_dicts_of_every_age_give_their_keys(reading_of):
    new = called("collections.OrderedDict") + b"(" + text("a") + number(1) + text("b") + number(2) + b"u"
    old = called("collections.OrderedDict", b"](](" + text("a") + number(1) + b"e](" + text("b") + number(2) + b"ee")
    for pickle in (new, old):
        assert reading_of("torch", torch_zip(finished(pickle))).keys == ("a", "b")


@pytest.mark.parametrize("order, note", [(b"little", False), (b"big", True)])
def test_byte_order_is_respected(reading_of, order, note):
    members = [Member("best/data.pkl", finished(b"}")), Member("best/byteorder", order), Member("best/version", b"3\n")]
    assert any("big-endian" in each for each in reading_of("torch", zip_bytes(members)).notes) is note


@pytest.mark.parametrize(
    "members, seen",
    [
        ([Member("best/version", b"3\n")], "without data.pkl"),
        ([Member("data.pkl", finished(b"}")), Member("version", b"3\n")], "outside"),
        ([Member("best/data.pkl", finished(b"}"))], "no version"),
        ([Member("best/data.pkl", finished(b"}")), Member("best/version", b"three")], "not a number"),
        (
            [
                Member("best/data.pkl", finished(b"}")),
                Member("best/version", b"3"),
                Member("best/byteorder", b"middle"),
            ],
            "neither little nor big",
        ),
        ([Member("best/data.pkl", finished(b"}")), Member("best/constants.pkl", b"x")], "TorchScript"),
    ],
)
def test_archives_torch_would_not_load_are_refused(refusal_of, members, seen):
    assert seen in refusal_of("torch", zip_bytes(members))


def test_the_legacy_format_cut_after_its_second_pickle_is_refused(refusal_of):
    legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    assert "cut short" in refusal_of("torch", legacy)


def test_a_file_that_is_something_else_is_refused_by_its_beginning(refusal_of):
    assert "<!DOCTYP" in refusal_of("torch", b"<!DOCTYPE html><html>404</html>")
