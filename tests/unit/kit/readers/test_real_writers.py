"""Files that numpy and torch themselves wrote are read as what they are."""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import sys

import pytest

if sys.version_info < (3, 11):
    pytest.skip("lifecycle runs at home, on Python 3.11 and up", allow_module_level=True)

from leasehold.kit.readers import Unreadable, read
from leasehold.kit.readers.checkpoints.folders import read_folder
from leasehold.lifecycle.confine.check_loads import LoadRequest, check_loads

# ---------------------------------------------------------------- numpy


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")


@pytest.mark.parametrize("dtype", ["?", "i1", ">u2", "f2", "f8", "g", "c16", "S3", "U4", "M8[ns]", "V6", "f4,(2)i8,U3"])
def test_numpy_arrays_of_every_kind(numpy, tmp_path, dtype):
    path = str(tmp_path / "a.npy")
    numpy.save(path, numpy.zeros((2, 3), dtype=dtype))
    assert read(path, "npy").numel == 6


def test_numpy_fortran_order_scalars_and_empty_arrays(numpy, tmp_path):
    path = str(tmp_path / "a.npy")
    for array in (numpy.asfortranarray(numpy.ones((2, 3))), numpy.array(1.5), numpy.empty((0, 4))):
        numpy.save(path, array)
        assert read(path, "npy").numel == array.size


@pytest.mark.parametrize("writer", ["savez", "savez_compressed"])
def test_numpy_archives(numpy, tmp_path, writer):
    path = str(tmp_path / "a.npz")
    getattr(numpy, writer)(path, w=numpy.random.default_rng(0).normal(size=(300, 1000)), b=numpy.float32(1))
    reading = read(path, "npz")
    assert (reading.tensors, reading.numel, reading.keys) == (2, 300_001, ("w", "b"))


def test_numpy_objects_are_refused(numpy, tmp_path):
    path = str(tmp_path / "a.npy")
    numpy.save(path, numpy.array([{}]), allow_pickle=True)
    with pytest.raises(Unreadable, match="pickled"):
        read(path, "npy")


# ---------------------------------------------------------------- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def saved(torch, tmp_path):
    """Save with torch.save, then read."""

    def save_and_read(value, **options):
        path = str(tmp_path / "saved.pt")
        torch.save(value, path, **options)
        return read(path, "torch")

    return save_and_read


@pytest.fixture
def model(torch):
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def test_torch_state_dict(saved, model):
    state = model.state_dict()
    reading = saved(state)
    assert reading.keys == tuple(state)
    assert reading.numel == sum(tensor.numel() for tensor in state.values())
    assert (reading.opaque, reading.notes) == ((), ())


def test_torch_full_training_state(torch, saved, model):
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    reading = saved(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "rng": torch.get_rng_state()}
    )
    assert reading.keys == ("model", "optimizer", "epoch", "rng")
    assert reading.tensors == 7 + 12 + 1
    assert reading.opaque == ()


def test_torch_tied_weights_and_views(torch, saved):
    w = torch.randn(4, 4)
    views = {"a": w, "b": w, "t": w.t(), "slice": w[1:, ::2], "expand": w.expand(2, 4, 4), "last": w[3, 3]}
    assert saved(views).tensors == 5
    assert saved({"a": w[:2].clone(), "b": w.view(2, 8)}).notes == ()


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64", "uint16", "float8_e4m3fn", "float8_e5m2"],
)
def test_torch_dtypes(torch, saved, dtype):
    assert saved({"w": torch.zeros(5, dtype=getattr(torch, dtype))}).numel == 5


def test_torch_parameters_buffers_and_attributes(torch, saved):
    tagged = torch.ones(2)
    tagged.tag = "mine"
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.tag = "mine"
    reading = saved({"p": torch.nn.Parameter(torch.ones(2)), "t": tagged, "q": parameter})
    assert (reading.tensors, reading.opaque) == (3, ())


def test_torch_sparse_nested_quantized_meta_and_empty(torch, saved):
    reading = saved(
        {
            "coo": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
            "meta": torch.empty(3, device="meta"),
            "empty": torch.empty(0, 3),
            "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        }
    )
    assert reading.opaque == ()
    assert "no data" in reading.notes[0]


def test_torch_with_plain_python_values(torch, saved):
    values = {
        "set": {1, 2},
        "frozen": frozenset([1]),
        "default": collections.defaultdict(list, {1: [2]}),
        "counter": collections.Counter("aab"),
        "ordered": collections.OrderedDict(a=1),
        "range": range(3),
        "slice": slice(1, 2),
        "bytes": b"abc",
        "bytearray": bytearray(b"abc"),
        "complex": 2j,
        "large": 1 << 1000,
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "dtype": torch.float32,
        "layout": torch.strided,
    }
    reading = saved(values)
    assert reading.keys == tuple(values)
    assert reading.opaque == ()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_torch_with_numpy_values_of_every_protocol(numpy, torch, saved, protocol):
    values = {"loss": numpy.float64(1.5), "steps": numpy.arange(5), "rng": numpy.random.get_state(), "w": torch.ones(2)}
    reading = saved(values, pickle_protocol=protocol)
    assert (reading.tensors, reading.opaque) == (1, ())


def test_torch_with_a_namespace_and_a_path_is_opaque(torch, saved):
    reading = saved({"args": argparse.Namespace(lr=1, out=pathlib.PurePosixPath("/x")), "w": torch.ones(2)})
    assert reading.opaque == ("argparse.Namespace", "pathlib.PurePosixPath")
    assert reading.tensors == 1


def test_torch_whole_module_is_opaque(saved, model):
    reading = saved(model)
    assert "torch.nn.modules.linear.Linear" in reading.opaque
    assert reading.tensors == 7


def test_torch_legacy_format_is_read_and_noted(torch, saved):
    reading = saved(
        {"w": torch.ones(2), "b": torch.zeros(3, dtype=torch.bfloat16)}, _use_new_zipfile_serialization=False
    )
    assert (reading.tensors, reading.numel) == (2, 5)
    assert "legacy torch format" in reading.notes[0]


@pytest.mark.parametrize("new", [True, False])
def test_torch_numbers_are_scanned_in_both_formats(torch, tmp_path, new):
    path = str(tmp_path / "saved.pt")
    for value, seen in ((1.0, "finite: all of 20 bytes"), (float("nan"), "NOT FINITE: 2 NaN")):
        state = {"w": torch.full((3,), 2.0), "h": torch.tensor([value] * 2 + [3.0, 4.0], dtype=torch.bfloat16)}
        torch.save(state, path, _use_new_zipfile_serialization=new)
        assert read(path, "checkpoint").notes[0].startswith(seen)


def test_torch_dcp_folders_are_read_part_by_part(torch, model, tmp_path):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    dcp.save({"model": model.state_dict(), "step": 3}, checkpoint_id=str(tmp_path / "good"))
    reading = read_folder(str(tmp_path / "good"))
    assert (reading.tensors, reading.keys, reading.opaque) == (7, ("model", "step"), ())
    assert any(note.startswith("finite: all") for note in reading.notes)
    model[0].weight.data[1, 1] = float("inf")
    dcp.save({"model": model.state_dict(), "step": 3}, checkpoint_id=str(tmp_path / "bad"))
    assert "NOT FINITE: 1 NaN or infinite, in model.0.weight" in read_folder(str(tmp_path / "bad")).notes


def test_torchscript_is_refused(torch, model, tmp_path):
    torch.jit.save(torch.jit.script(model.eval()), str(tmp_path / "script.pt"))
    with pytest.raises(Unreadable, match="TorchScript"):
        read(str(tmp_path / "script.pt"), "torch")


def test_torch_without_crcs_is_read_and_noted(torch, saved):
    torch.serialization.set_crc32_options(False)
    try:
        assert "no CRCs" in saved({"w": torch.ones(2)}).notes[0]
    finally:
        torch.serialization.set_crc32_options(True)


def test_torch_bytes_of_a_view_count_its_whole_storage(torch, saved):
    reading = saved({"w": torch.zeros(1_000_000)[:10]})
    assert reading.numel == 10
    assert reading.bytes > 4_000_000


# ---------------------------------------------------------------- safetensors


def test_safetensors_of_the_reference_writer(torch, tmp_path):
    writer = pytest.importorskip("safetensors.torch")
    path = str(tmp_path / "a.safetensors")
    writer.save_file({"w": torch.ones(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}, path, {"format": "pt"})
    assert read(path, "safetensors").numel == 9


# ---------------------------------------------------------------- what torch itself makes of the same bytes


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("stem", ["plain", "a:b", "a\\b"])
def test_the_legacy_format_of_every_protocol_and_name(torch, tmp_path, model, protocol, stem):
    path = str(tmp_path / (stem + ".pt"))
    state = {"model": model.state_dict(), "losses": [0.5] * 3000, "ids": list(range(70_000)), "epoch": 3}
    for is_zip in (False, True):
        torch.save(state, path, _use_new_zipfile_serialization=is_zip, pickle_protocol=protocol)
        reading = read(path, "checkpoint")
        assert (reading.keys, reading.tensors, reading.opaque) == (("model", "losses", "ids", "epoch"), 7, ())


def test_a_whole_module_in_the_legacy_format_is_opaque_and_may_be_allowed(torch, tmp_path, model):
    path = str(tmp_path / "module.pt")
    torch.save(model, path, _use_new_zipfile_serialization=False)
    asked = [LoadRequest(path, "torch"), LoadRequest(path, "torch", allow_opaque=True)]
    refused, allowed = check_loads(asked, python=sys.executable)
    assert (refused.ok, allowed.ok) == (False, True), allowed.reason
    assert "torch.nn.modules.linear.Linear" in allowed.reading["opaque"]


def test_what_dcp_refuses_of_flipped_bits_is_refused(torch, tmp_path, model):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    place = tmp_path / "ckpt"
    dcp.save({"model": model.state_dict(), "part": {"step": torch.tensor(5)}}, checkpoint_id=str(place), no_dist=True)
    assert read_folder(str(place)).opaque == ()
    for name in (".metadata", "__0_0.distcp"):
        whole = (place / name).read_bytes()
        for bit in random.Random(name).sample(range(8 * len(whole)), 150):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            (place / name).write_bytes(flipped)
            state = {"model": model.state_dict(), "part": {"step": torch.tensor(0)}}
            try:
                dcp.load(state, checkpoint_id=str(place), no_dist=True)
            except BaseException:  # noqa: BLE001  torch raises CheckpointException, which is no Exception
                assert _refuses(place), (name, bit)
        (place / name).write_bytes(whole)


def _refuses(place):
    try:
        return bool(read_folder(str(place)).opaque)
    except Unreadable:
        return True
