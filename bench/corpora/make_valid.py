"""Write valid files with the libraries that people save with: `python -m bench.corpora.make_valid FOLDER`.

`expects.json` says of each whether it holds data alone (`plain`) or a model's classes too (`code`).
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
np: Any = importlib.import_module("numpy")
st_torch: Any = importlib.import_module("safetensors.torch")
st_numpy: Any = importlib.import_module("safetensors.numpy")

_TORCH_TYPES = (
    "float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32"
    " complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
).split()
_NUMPY_TYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16 >f4 >i8 S7 U5 M8[ns] m8[s] g".split()
Write = tuple[str, str, Callable[[Path], object]]  # name, what it holds, how to write it


def main() -> None:
    """Write every file."""
    place = Path(sys.argv[1])
    torch.manual_seed(1)
    expects = {}
    for made in (_torch_types, _torch_shapes, _trainings, _models, _numpy_files, _safetensors_files, _texts, _tars, _folders):
        for name, holds, write in made():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            expects[name] = holds
    (place / "expects.json").write_text(json.dumps(expects, indent=1))
    print(f"make_valid: {len(expects)} valid files in {place}", file=sys.stderr)


def _saved(name: str, value: object, holds: str = "plain", **more: Any) -> Iterator[Write]:
    """As torch saves it now, as it did before 1.6, and by other protocols and names."""
    yield f"torch/{name}.pt", holds, lambda path: torch.save(value, path, **more)
    yield (
        f"torch/{name}-legacy.pth",
        holds,
        lambda path: torch.save(value, path, _use_new_zipfile_serialization=False, **more),
    )


def _tensor(name: str, shape: tuple[int, ...] = (5, 7)) -> Any:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape).to(getattr(torch, name))


def _torch_types() -> Iterator[Write]:
    for name in _TORCH_TYPES:
        yield from _saved(f"type-{name}", {"weight": _tensor(name)})
        value = _tensor(name)
        yield f"torch/bare-{name}.bin", "plain", lambda path, value=value: torch.save(value, path)
    for protocol in (2, 3, 4, 5):
        yield from _saved(f"protocol-{protocol}", {"w": _tensor("float32"), "n": 3}, pickle_protocol=protocol)


def _torch_shapes() -> Iterator[Write]:
    base = torch.randn(64, 64)
    shapes = {
        "scalar": torch.tensor(1.5), "empty": torch.empty(0), "no-rows": torch.empty(0, 3), "view": base[3:9, ::2],
        "transposed": base.t(), "expanded": torch.ones(1).expand(10, 10), "shared": {"a": base, "b": base[0]},
        "parameter": torch.nn.Parameter(base), "grad": base.clone().requires_grad_(), "list": [base, base + 1],
        "channels-last": torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "sparse": torch.eye(8).to_sparse(), "sparse-csr": torch.eye(8).to_sparse_csr(), "conj": torch.randn(4).cfloat().conj(),
        "quantized": torch.quantize_per_tensor(base, 0.1, 0, torch.qint8), "big-4MB": torch.randn(1024, 1024),
        "big-64MB": torch.randn(4096, 4096), "many": {f"layer.{n}.weight": torch.randn(3) for n in range(3000)},
        "deep": {"a": {"b": {"c": {"d": {"e": base}}}}}, "tuple": (base, 1, "x", None, True), "size": base.shape,
        "meta": torch.empty(5, 5, device="meta"), "names": {"модель": base, "层/权重:0": base, " ": base},
        "numbers": {"lr": 1e-3, "step": 10**20, "inf": float("inf"), "set": {1, 2}, "bytes": b"\x00\xff", "c": 1j},
        "numpy-scalar": {"loss": np.float64(0.25), "n": np.int64(3)}, "numpy-array": {"hist": np.arange(10.0)},
        "dtype": {"dtype": torch.bfloat16, "device": torch.device("cpu")},
    }  # fmt: skip
    for name, value in shapes.items():
        yield from _saved(f"shape-{name}", value)


def _network() -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))


def _trainings() -> Iterator[Write]:
    optimizers = "SGD Adam AdamW Adamax NAdam RAdam RMSprop Rprop Adagrad Adadelta ASGD".split()
    for name in optimizers:
        network = _network()
        optimizer = getattr(torch.optim, name)(network.parameters(), lr=1e-3)
        network(torch.randn(2, 3, 8, 8)).sum().backward()
        optimizer.step()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        value = {
            "model": network.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": schedule.state_dict(),
            "epoch": 3, "global_step": 1000, "best_acc": 0.9, "rng": torch.get_rng_state(),
            "np_rng": np.random.RandomState(0).get_state(), "args": {"lr": 1e-3, "tags": ["a", "b"]},
        }  # fmt: skip
        yield from _saved(f"training-{name}", value)
        yield f"torch/training-{name}.ckpt", "plain", lambda path, value=value: torch.save(value, path)


def _models() -> Iterator[Write]:
    nn = torch.nn
    kinds = {
        "linear": nn.Linear(16, 4), "conv": nn.Conv1d(4, 8, 3), "lstm": nn.LSTM(8, 16, 2), "gru": nn.GRU(8, 8),
        "embedding": nn.Embedding(100, 8), "attention": nn.MultiheadAttention(16, 4), "norm": nn.LayerNorm(8),
        "encoder": nn.TransformerEncoderLayer(16, 2, 32), "network": _network(), "prelu": nn.PReLU(),
    }  # fmt: skip
    for name, module in kinds.items():
        yield from _saved(f"state-{name}", module.state_dict())
        yield f"torch/half-{name}.bin", "plain", lambda path, module=module: torch.save(module.half().state_dict(), path)
    for name in ("linear", "network", "lstm"):
        yield from _saved(f"module-{name}", kinds[name].float(), holds="code")


def _numpy_files() -> Iterator[Write]:
    for name in _NUMPY_TYPES:
        array = np.arange(12).astype("i8").astype(name).reshape(3, 4)
        word = f"{name.replace('>', 'big-').replace('[', '-').rstrip(']')}"
        yield f"numpy/{word}.npy", "plain", lambda path, array=array: np.save(path, array)
        yield f"numpy/{word}-f.npy", "plain", lambda path, array=array: np.save(path, np.asfortranarray(array))
        yield f"numpy/{word}.npz", "plain", lambda path, array=array: np.savez(path, array, named=array[0])
    shapes = {
        "scalar": np.float32(3), "empty": np.empty((0, 4)), "one": np.ones(1), "big-8MB": np.random.rand(1024, 1024),
        "record": np.zeros(4, dtype=[("x", "f4"), ("y", "i8", (2,)), ("name", "U3")]), "7d": np.zeros((1, 2, 1, 2, 1, 2, 1)),
        "zeros-32MB": np.zeros((4096, 1024)), "aligned": np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    }  # fmt: skip
    for name, array in shapes.items():
        yield f"numpy/shape-{name}.npy", "plain", lambda path, array=array: np.save(path, array)
        yield f"numpy/shape-{name}.npz", "plain", lambda path, array=array: np.savez_compressed(path, array=array)
    keys = {"a:b": np.ones(2), "layer/weight": np.ones(2), "back\\slash": np.ones(2), "重": np.ones(2)}
    yield "numpy/odd-keys.npz", "plain", lambda path: np.savez(path, **keys)
    yield "numpy/many-keys.npz", "plain", lambda path: np.savez(path, **{f"k{n}": np.ones(3) for n in range(500)})


def _safetensors_files() -> Iterator[Write]:
    for name in _TORCH_TYPES:
        if name == "complex32" or name == "complex128":  # the format has neither
            continue
        value = {"weight": _tensor(name), "bias": _tensor(name, (3,))}
        yield f"safetensors/{name}.safetensors", "plain", lambda path, value=value: _try_torch(value, path)
    for name in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1".split():
        arrays = {"a": np.arange(6).astype(name).reshape(2, 3)}
        yield f"safetensors/numpy-{name}.safetensors", "plain", lambda path, arrays=arrays: st_numpy.save_file(arrays, path)
    state = {key: value.contiguous() for key, value in _network().state_dict().items()}
    for name, extra in {"none": None, "format": {"format": "pt"}, "long": {"note": "长" * 5000}}.items():
        yield (
            f"safetensors/metadata-{name}.safetensors",
            "plain",
            lambda path, extra=extra: st_torch.save_file(state, path, metadata=extra),
        )
    sizes = {"empty": {}, "zero": {"z": torch.empty(0, 5)}, "scalar": {"s": torch.tensor(2.0)}, "big": {"w": torch.randn(2048, 2048)}}
    for name, tensors in sizes.items():
        yield f"safetensors/size-{name}.safetensors", "plain", lambda path, tensors=tensors: st_torch.save_file(tensors, path)


def _try_torch(value: dict[str, Any], path: Path) -> None:
    st_torch.save_file(value, path)


def _texts() -> Iterator[Write]:
    records = [{"step": n, "loss": 1 / (n + 1), "ok": n % 2 == 0, "note": "é\n\"q\" 漢", "none": None} for n in range(50)]
    for name, value in {"object": records[0], "list": records, "number": 1.5, "text": "x", "big": {str(n): n for n in range(20000)}}.items():
        for how, options in {"plain": {}, "indented": {"indent": 2}, "utf8": {"ensure_ascii": False}}.items():
            yield (
                f"text/{name}-{how}.json",
                "plain",
                lambda path, value=value, options=options: path.write_text(json.dumps(value, **options), "utf-8"),
            )
    lines = "\n".join(json.dumps(record) for record in records)
    yield "text/lines.jsonl", "plain", lambda path: path.write_text(lines + "\n")
    yield "text/no-last-newline.jsonl", "plain", lambda path: path.write_text(lines)
    yield "text/long-line.jsonl", "plain", lambda path: path.write_text(json.dumps({"x": "y" * (9 << 20)}) + "\n")
    yield "text/lines.ndjson", "plain", lambda path: path.write_text(lines.replace("\n", "\r\n"))
    for dialect in ("excel", "unix"):
        yield f"text/{dialect}.csv", "plain", lambda path, dialect=dialect: _csv(path, dialect, records)
    yield "text/header-only.csv", "plain", lambda path: _csv(path, "excel", [])
    yield "text/numbers.csv", "plain", lambda path: np.savetxt(path, np.random.rand(50, 4), delimiter=",", header="a,b,c,d", comments="")
    yield "text/semicolons.csv", "plain", lambda path: np.savetxt(path, np.random.rand(50, 4), delimiter=";")
    yield "text/bom.csv", "plain", lambda path: path.write_text("a,b\n1,2\n", "utf-8-sig")
    yield "text/nan.json", "plain", lambda path: path.write_text(json.dumps({"loss": float("nan")}))


def _csv(path: Path, dialect: str, records: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["step", "loss", "ok", "note", "none"], dialect=dialect)
        writer.writeheader()
        writer.writerows(records)


def _tars() -> Iterator[Write]:
    formats = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
    for name, form in formats.items():
        yield f"tar/{name}.tar", "plain", lambda path, form=form: _tar(path, form, ["a.json", "d/b.txt", "x" * 90])
        if name != "ustar":
            yield f"tar/{name}-long.tar", "plain", lambda path, form=form: _tar(path, form, ["d/" * 80 + "long", "имя/文"])


def _tar(path: Path, form: int, names: list[str]) -> None:
    source = path.with_suffix(".source")
    source.write_text("content\n" * 100)
    with tarfile.open(path, "w", format=form) as archive:
        for name in names:
            archive.add(source, name)
    source.unlink()


def _folders() -> Iterator[Write]:
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    states = {
        "plain": {"model": _network().state_dict()},
        "training": {"model": _network().state_dict(), "step": torch.tensor(3), "lr": 0.1, "name": "run"},
        "half": {"w": torch.randn(64, 64).half(), "b": torch.randn(4).bfloat16()},
        "many": {f"p{n}": torch.randn(5) for n in range(300)},
        "int": {"ids": torch.arange(100), "mask": torch.ones(5, dtype=torch.bool)},
    }
    for name, state in states.items():
        yield f"dcp/{name}", "plain", lambda path, state=state: dcp.save(state, checkpoint_id=str(path), no_dist=True)
    yield "hf/shards", "plain", _hf_folder


def _hf_folder(path: Path) -> None:
    path.mkdir()
    shards = {f"model-0000{n}-of-00002.safetensors": {f"layer.{n}": torch.randn(8, 8)} for n in (1, 2)}
    for name, tensors in shards.items():
        st_torch.save_file(tensors, path / name, metadata={"format": "pt"})
    index = {"metadata": {"total_size": 512}, "weight_map": {key: name for name, part in shards.items() for key in part}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
