"""Write valid files with the libraries that people save with: `python -m bench.corpora.make_valid FOLDER`.

`expects.json` says of each whether it holds data alone (`plain`) or a model's classes too (`code`).
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
np: Any = importlib.import_module("numpy")
st_torch: Any = importlib.import_module("safetensors.torch")
st_numpy: Any = importlib.import_module("safetensors.numpy")

_TORCH_TYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "complex32",
    "complex64",
    "complex128",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
_NUMPY_TYPES = [
    "f2",
    "f4",
    "f8",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "b1",
    "c8",
    "c16",
    ">f4",
    ">i8",
    "S7",
    "U5",
    "M8[ns]",
    "m8[s]",
    "g",
]
Writer = Callable[[Path], object]
Write = tuple[str, str, Writer]  # name, what it holds, how to write it


def _at(save: Callable[..., object], *given: Any, **options: Any) -> Writer:
    """Write by a function that takes the path first."""
    return lambda path: save(path, *given, **options)


def _to(save: Callable[..., object], value: object, *given: Any, **options: Any) -> Writer:
    """Write by a function that takes the value, then the path."""
    return lambda path: save(value, path, *given, **options)


def main() -> None:
    """Write every file."""
    place = Path(sys.argv[1])
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    expects = {}
    kinds = (_torch_types, _torch_shapes, _trainings, _models)
    for made in (*kinds, _numpy_files, _safetensors_files, _texts, _tars, _folders):
        for name, holds, write in made():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            if name.startswith("torch/") and not _loads(path):
                path.unlink()
                print(f"make_valid: torch itself does not load {name}, which it wrote; left out", file=sys.stderr)
                continue
            expects[name] = holds
    (place / "expects.json").write_text(json.dumps(expects, indent=1))
    print(f"make_valid: {len(expects)} valid files in {place}", file=sys.stderr)


def _loads(path: Path) -> bool:
    try:
        torch.load(path, map_location="cpu", weights_only=False)
    except Exception:  # noqa: BLE001  torch fails in any way on what its old format cannot hold
        return False
    return True


def _saved(name: str, value: object, holds: str = "plain", **more: Any) -> Iterator[Write]:
    """As torch saves it now, as it did before 1.6, and by other protocols and names."""
    yield f"torch/{name}.pt", holds, _to(torch.save, value, **more)
    yield f"torch/{name}-legacy.pth", holds, _to(torch.save, value, _use_new_zipfile_serialization=False, **more)


def _tensor(name: str, shape: tuple[int, ...] = (5, 7)) -> Any:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape).to(getattr(torch, name))


def _torch_types() -> Iterator[Write]:
    for name in _TORCH_TYPES:
        yield from _saved(f"type-{name}", {"weight": _tensor(name)})
        value = _tensor(name)
        yield f"torch/bare-{name}.bin", "plain", _to(torch.save, value)
    for protocol in (2, 3, 4, 5):
        yield from _saved(f"protocol-{protocol}", {"w": _tensor("float32"), "n": 3}, pickle_protocol=protocol)


def _torch_shapes() -> Iterator[Write]:
    base = torch.randn(64, 64)
    shapes = {
        "scalar": torch.tensor(1.5), "empty": torch.empty(0), "no-rows": torch.empty(0, 3), "view": base[3:9, ::2],
        "transposed": base.t(), "expanded": torch.ones(1).expand(10, 10), "shared": {"a": base, "b": base[0]},
        "parameter": torch.nn.Parameter(base), "grad": base.clone().requires_grad_(), "list": [base, base + 1],
        "channels-last": torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "sparse": torch.eye(8).to_sparse(), "sparse-csr": torch.eye(8).to_sparse_csr(),
        "conj": torch.randn(4).cfloat().conj(),
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
    optimizers = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD"]
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
        yield f"torch/training-{name}.ckpt", "plain", _to(torch.save, value)


def _models() -> Iterator[Write]:
    nn = torch.nn
    kinds = {
        "linear": nn.Linear(16, 4), "conv": nn.Conv1d(4, 8, 3), "lstm": nn.LSTM(8, 16, 2), "gru": nn.GRU(8, 8),
        "embedding": nn.Embedding(100, 8), "attention": nn.MultiheadAttention(16, 4), "norm": nn.LayerNorm(8),
        "encoder": nn.TransformerEncoderLayer(16, 2, 32), "network": _network(), "prelu": nn.PReLU(),
    }  # fmt: skip
    for name, module in kinds.items():
        yield from _saved(f"state-{name}", module.state_dict())
        yield f"torch/half-{name}.bin", "plain", _to(torch.save, module.half().state_dict())
    for name in ("linear", "network", "lstm"):
        yield from _saved(f"module-{name}", kinds[name].float(), holds="code")


def _numpy_files() -> Iterator[Write]:
    for name in _NUMPY_TYPES:
        array = np.arange(12).astype("i8").astype(name).reshape(3, 4)
        word = f"{name.replace('>', 'big-').replace('[', '-').rstrip(']')}"
        yield f"numpy/{word}.npy", "plain", _at(np.save, array)
        yield f"numpy/{word}-f.npy", "plain", _at(np.save, np.asfortranarray(array))
        yield f"numpy/{word}.npz", "plain", _at(np.savez, array, named=array[0])
    shapes = {
        "scalar": np.float32(3), "empty": np.empty((0, 4)), "one": np.ones(1), "big-8MB": np.random.rand(1024, 1024),
        "record": np.zeros(4, dtype=[("x", "f4"), ("y", "i8", (2,)), ("name", "U3")]),
        "7d": np.zeros((1, 2, 1, 2, 1, 2, 1)),
        "zeros-32MB": np.zeros((4096, 1024)), "aligned": np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    }  # fmt: skip
    for name, array in shapes.items():
        yield f"numpy/shape-{name}.npy", "plain", _at(np.save, array)
        yield f"numpy/shape-{name}.npz", "plain", _at(np.savez_compressed, array=array)
    keys = {"a:b": np.ones(2), "layer/weight": np.ones(2), "back\\slash": np.ones(2), "重": np.ones(2)}
    yield "numpy/odd-keys.npz", "plain", _at(np.savez, **keys)
    yield "numpy/many-keys.npz", "plain", _at(np.savez, **{f"k{n}": np.ones(3) for n in range(500)})


def _safetensors_files() -> Iterator[Write]:
    for name in _TORCH_TYPES:
        if name == "complex32" or name == "complex128":  # the format has neither
            continue
        value = {"weight": _tensor(name), "bias": _tensor(name, (3,))}
        yield f"safetensors/{name}.safetensors", "plain", _to(st_torch.save_file, value)
    for name in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]:
        arrays = {"a": np.arange(6).astype(name).reshape(2, 3)}
        yield f"safetensors/numpy-{name}.safetensors", "plain", _to(st_numpy.save_file, arrays)
    state = {key: value.contiguous() for key, value in _network().state_dict().items()}
    for name, extra in {"none": None, "format": {"format": "pt"}, "long": {"note": "长" * 5000}}.items():
        yield f"safetensors/metadata-{name}.safetensors", "plain", _to(st_torch.save_file, state, metadata=extra)
    sizes: dict[str, dict[str, Any]] = {
        "empty": {}, "zero": {"z": torch.empty(0, 5)}, "scalar": {"s": torch.tensor(2.0)},
        "big": {"w": torch.randn(2048, 2048)},
    }  # fmt: skip
    for name, tensors in sizes.items():
        yield f"safetensors/size-{name}.safetensors", "plain", _to(st_torch.save_file, tensors)


def _texts() -> Iterator[Write]:
    records = [{"step": n, "loss": 1 / (n + 1), "ok": n % 2 == 0, "note": 'é\n"q" 漢', "none": None} for n in range(50)]
    ways: dict[str, dict[str, Any]] = {"plain": {}, "indented": {"indent": 2}, "utf8": {"ensure_ascii": False}}
    big = {str(n): n for n in range(20000)}
    values = {"object": records[0], "list": records, "number": 1.5, "text": "x", "big": big}
    for name, value in values.items():
        for how, options in ways.items():
            yield f"text/{name}-{how}.json", "plain", _text(json.dumps(value, **options))
    lines = "\n".join(json.dumps(record) for record in records)
    yield "text/lines.jsonl", "plain", _text(lines + "\n")
    yield "text/no-last-newline.jsonl", "plain", _text(lines)
    yield "text/long-line.jsonl", "plain", _text(json.dumps({"x": "y" * (9 << 20)}) + "\n")
    yield "text/lines.ndjson", "plain", _text(lines.replace("\n", "\r\n"))
    for dialect in ("excel", "unix"):
        yield f"text/{dialect}.csv", "plain", _at(_csv, dialect, records)
    yield "text/header-only.csv", "plain", _at(_csv, "excel", [])
    table = np.random.rand(50, 4)
    yield "text/numbers.csv", "plain", _at(np.savetxt, table, delimiter=",", header="a,b,c,d", comments="")
    yield "text/semicolons.csv", "plain", _at(np.savetxt, table, delimiter=";")
    yield "text/bom.csv", "plain", _text("a,b\n1,2\n", "utf-8-sig")
    yield "text/nan.json", "plain", _text(json.dumps({"loss": float("nan")}))


def _text(text: str, encoding: str = "utf-8") -> Writer:
    return lambda path: path.write_text(text, encoding, newline="")


def _csv(path: Path, dialect: str, records: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["step", "loss", "ok", "note", "none"], dialect=dialect)
        writer.writeheader()
        writer.writerows(records)


def _tars() -> Iterator[Write]:
    formats = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
    for name, form in formats.items():
        yield f"tar/{name}.tar", "plain", _at(_tar, form, ["a.json", "d/b.txt", "x" * 90])
        if name != "ustar":
            yield f"tar/{name}-long.tar", "plain", _at(_tar, form, ["d/" * 80 + "long", "имя/文"])


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
        yield f"dcp/{name}", "plain", _at(_dcp, dcp, state)
    yield "hf/shards", "plain", _hf_folder


def _dcp(path: Path, dcp: Any, state: dict[str, Any]) -> None:
    dcp.save(state, checkpoint_id=str(path), no_dist=True)


def _hf_folder(path: Path) -> None:
    path.mkdir()
    shards = {f"model-0000{n}-of-00002.safetensors": {f"layer.{n}": torch.randn(8, 8)} for n in (1, 2)}
    for name, tensors in shards.items():
        st_torch.save_file(tensors, path / name, metadata={"format": "pt"})
    weights = {key: name for name, part in shards.items() for key in part}
    index = {"metadata": {"total_size": 512}, "weight_map": weights}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
