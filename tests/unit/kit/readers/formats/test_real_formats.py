"""Files that the real libraries write now; without a library its tests are skipped (make_golden.py names them)."""

from __future__ import annotations

import json
import os
import random

import pytest

from leasehold.kit.readers import Reading, Unreadable, read
from leasehold.kit.tables.file_endings import guess_format

FLIPS = int(os.environ.get("LEASEHOLD_FLIPS", "500"))


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")


def _read(path):
    return read(str(path), guess_format(str(path)))


def _survives(path, kind):
    """Cut at every tenth byte and flip bits: a reading or a refusal, nothing else."""
    whole, chance = path.read_bytes(), random.Random(kind)
    part = path.with_name("part")
    for length in range(10, len(whole), 10):
        part.write_bytes(whole[:length])
        try:
            assert read(str(part), kind).notes
        except Unreadable:
            continue
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        bit = chance.randrange(8 * len(damaged))
        damaged[bit // 8] ^= 1 << bit % 8
        part.write_bytes(bytes(damaged))
        try:
            assert isinstance(read(str(part), kind), Reading)
        except Unreadable as problem:
            assert problem.reason


@pytest.mark.parametrize("compress", [0, 3, ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3)])
def test_joblib(numpy, tmp_path, compress):
    joblib = pytest.importorskip("joblib")
    objects = numpy.array([{"a": 1}, None], dtype=object)
    arrays = {"k%d" % n: numpy.arange(n, dtype="f4") for n in range(1, 40)}
    value = {**arrays, "o": objects, "f": numpy.asfortranarray(numpy.ones((2, 3))), "t": "x" * 200_000, "n": [1.5] * 9}
    joblib.dump(value, tmp_path / "a.joblib", compress=compress)
    reading = _read(tmp_path / "a.joblib")
    assert (reading.tensors, reading.numel, reading.opaque) == (41, 780 + 2 + 6, ())
    joblib.dump({"w": numpy.arange(3.0)}, tmp_path / "b.joblib", compress=compress)
    _survives(tmp_path / "b.joblib", "joblib")


def test_yaml(tmp_path):
    yaml = pytest.importorskip("yaml")
    chance, refused = random.Random(4), []
    texts = [
        "- a",
        "a: b",
        "#c",
        "[x",
        "*z",
        "!t",
        "%p",
        "'s",
        "a\nb",
        " x ",
        "yes",
        ".nan",
        "---",
        "x:",
        "é中",
        "",
        "~",
        "long " * 40,
    ]

    def value(depth):
        way = chance.randrange(6 if depth < 4 else 4)
        if way < 4:
            return (chance.choice(texts), chance.random(), None, chance.randrange(9))[way]
        parts = [value(depth + 1) for _ in range(chance.randrange(4))]
        return parts if way == 4 else dict(zip(("k", "k: #", "2", "é"), parts))

    path = tmp_path / "a.yaml"
    for _ in range(300):
        part = value(0)
        for style in ({}, {"default_flow_style": True}, {"default_style": '"'}, {"default_style": "|"}, {"width": 30}):
            path.write_text(yaml.dump([part, part], allow_unicode=True, **style), encoding="utf-8")
            try:
                _read(path)
            except Unreadable as problem:
                refused.append((path.read_text("utf-8"), problem.reason))
    assert not refused
    path.write_text("a: !!python/object/apply:os.system [x]\n")
    assert _read(path).opaque == ("the YAML tag !!python/object/apply:os.system",)


def test_tfevents(numpy, tmp_path):
    crc32c = pytest.importorskip("tensorboardX.crc32c")
    from tensorboardX import SummaryWriter

    from leasehold.kit.readers.formats.crc32c import sums

    texts = [os.urandom(size) for size in (0, 1, 8, 8, 40, 1023, 1024, 1025, 5000) for _ in range(9)]
    assert sums(texts) == [crc32c.crc32c(text) for text in texts]
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(20):
            writer.add_scalar("loss", step, step)
        writer.add_histogram("h", numpy.ones(9), 1)
    (path,) = tmp_path.glob("events.out.tfevents.*")
    assert _read(path).keys == ("loss", "h")
    _survives(path, "tfevents")


def test_gguf_blocks_are_those_of_the_library(numpy):
    gguf = pytest.importorskip("gguf")
    from leasehold.kit.readers.formats.models.gguf import _BLOCKS

    theirs = {int(kind): block for kind, block in gguf.constants.GGML_QUANT_SIZES.items()}
    assert {kind: _BLOCKS[kind] for kind in theirs if kind in _BLOCKS} == {
        k: v for k, v in theirs.items() if k in _BLOCKS
    }


def test_onnx_tensors_of_every_type(numpy, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    weights = []
    for kind in set(onnx.TensorProto.DataType.values()) & {*range(1, 8), *range(9, 23)}:
        weights.append(helper.make_tensor("plain%d" % kind, kind, [3], [1, 1, 1]))
        weights.append(numpy_helper.from_array(numpy_helper.to_array(weights[-1]), "raw%d" % kind))
    ends = [helper.make_tensor_value_info(name, 1, [None]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:], initializer=weights)
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    assert _read(tmp_path / "a.onnx").tensors == len(weights)
    _survives(tmp_path / "a.onnx", "onnx")


def _table(pa):
    return pa.table({
        "a": [1.0, float("nan"), None], "b": ["x", "y", None], "c": [[1.0], [], None], "d": [{"p": 1, "q": "a"}] * 3,
        "e": pa.array(["a", "b", "a"]).dictionary_encode(), "f": [True, None, False], "m": [[1.5, 2.5]] * 3,
    })  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet(tmp_path, codec, version):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for options in (
        {},
        {"use_dictionary": False, "write_page_checksum": True},
        {"row_group_size": 2, "write_page_index": True},
    ):
        parquet.write_table(_table(pa), tmp_path / "a.parquet", compression=codec, data_page_version=version, **options)
        assert _read(tmp_path / "a.parquet").tensors == 8
    _survives(tmp_path / "a.parquet", "parquet")


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_arrow(tmp_path, codec):
    pa = pytest.importorskip("pyarrow")
    table = _table(pa)
    with pa.ipc.new_file(
        str(tmp_path / "a.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as file:
        file.write_table(table, max_chunksize=2)
    assert _read(tmp_path / "a.arrow").numel == 21
    _survives(tmp_path / "a.arrow", "arrow")


@pytest.mark.parametrize("libver", [None, "v108", "latest"])
def test_hdf5(numpy, tmp_path, libver):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file["a/w"] = numpy.arange(12.0)
        file.create_dataset("pieces", data=numpy.ones((5, 5)), chunks=(2, 2))
        file["text"] = "x"
        file["soft"] = h5py.SoftLink("/a")
        file.attrs["model_config"] = json.dumps({"class_name": "Lambda", "config": {}})
    reading = _read(tmp_path / "a.h5")
    assert sorted(reading.keys) == ["a/w", "pieces", "text"] and reading.opaque == ("keras Lambda",)
    _survives(tmp_path / "a.h5", "hdf5")
