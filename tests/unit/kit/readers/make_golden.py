"""Write the golden files anew with the real libraries: make_golden.py [FOLDER]. CI has none of them.

    pip install numpy joblib PyYAML tensorboardX gguf onnx pyarrow h5py   # in a venv of its own
    python tests/unit/kit/readers/make_golden.py

Beside each file stands what the library was given: `facts.json` maps a file to what a reader must report of it.
"""

from __future__ import annotations

import json
import pickle
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

NAN = float("nan")
STATE = {"w": np.arange(12.0).reshape(3, 4), "b": np.array([1, NAN, np.inf], "f4"), "step": 7, "name": "run"}
_MAKERS: List[Callable[[Path], Dict[str, Any]]] = []


def maker(function: Callable[[Path], Dict[str, Any]]) -> Callable[[Path], Dict[str, Any]]:
    """Note a function that writes files and returns the facts of each, by kind/name."""
    _MAKERS.append(function)
    return function


def facts(tensors: int = 0, numel: int = 0, keys: Any = (), nan: Any = 0, inf: Any = 0) -> Dict[str, Any]:
    """Spell what a reader must report; nan None: it looks at no numbers."""
    return {"tensors": tensors, "numel": numel, "keys": list(keys), "nan": nan, "inf": inf}


@maker
def pickles(place: Path) -> Dict[str, Any]:
    """Plain pickles of two protocols, and two in one file."""
    known = {}
    for protocol in (2, 4):
        (place / f"p{protocol}.pkl").write_bytes(pickle.dumps(STATE, protocol))
        known[f"p{protocol}.pkl"] = facts(2, 15, STATE, 0 if protocol == 2 else 1, 0 if protocol == 2 else 1)
    (place / "two.pkl").write_bytes(pickle.dumps({"a": 1}, 4) + pickle.dumps({"b": NAN}, 4))
    return {**known, "two.pkl": facts(keys=("a", "b"), nan=1)}


@maker
def joblib(place: Path) -> Dict[str, Any]:
    """joblib's files, plain and compressed."""
    import joblib as library

    library.dump(STATE, place / "plain.joblib")
    library.dump(STATE, place / "zlib.joblib", compress=3)
    library.dump(STATE, place / "xz.joblib", compress=("xz", 3))
    return dict.fromkeys(("plain.joblib", "zlib.joblib", "xz.joblib"), facts(2, 15, STATE, 1, 1))


@maker
def zip(place: Path) -> Dict[str, Any]:
    """A zip with a folder in it."""
    with zipfile.ZipFile(place / "two.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("sub/"), b"")
        archive.writestr("sub/a.txt", "hello " * 20)
        archive.writestr("é 中.bin", bytes(range(50)))
    return {"two.zip": facts(0, 2, ("sub/a.txt", "é 中.bin"), None, None)}


@maker
def tar_gz(place: Path) -> Dict[str, Any]:
    """Tars compressed in three ways."""
    (place / "x.json").write_text("{}")
    for name, mode in (("a.tar.gz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.tar.xz", "w:xz")):
        with tarfile.open(place / name, mode) as archive:
            archive.add(place / "x.json", "0001.json")
    (place / "x.json").unlink()
    return dict.fromkeys(("a.tar.gz", "a.tar.bz2", "a.tar.xz"), facts(0, 1, ("json",), None, None))


@maker
def yaml(place: Path) -> Dict[str, Any]:
    """Configurations as PyYAML writes them."""
    import yaml as library

    value = {"lr": 1e-3, "none": None, "loss": NAN, "layers": [1, [2, 3], {"a": "b: c"}], "text": "two\nlines\n"}
    (place / "block.yaml").write_text(library.dump(value, default_flow_style=False))
    (place / "flow.yaml").write_text(library.dump(value, default_flow_style=True))
    shared = [1, 2]
    (place / "two.yaml").write_text(library.dump_all([{"a": shared, "b": shared}, {"c": 1}]))
    known = facts(0, 8, sorted(value), 1, 0)
    return {"block.yaml": known, "flow.yaml": known, "two.yaml": facts(0, 3, ("a", "b", "c"))}


@maker
def tfevents(place: Path) -> Dict[str, Any]:
    """An event file with scalars, a NaN and a text."""
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(str(place), filename_suffix=".golden")
    for step in range(8):
        writer.add_scalar("loss", NAN if step == 5 else 1.0 / (step + 1), step)
    writer.add_text("note", "hello", 1)
    writer.close()
    made = next(path for path in place.iterdir() if path.name.endswith(".golden"))
    made.replace(place / "events.out.tfevents.1")
    return {"events.out.tfevents.1": facts(0, 9, ("loss", "note/text_summary"), 1)}


@maker
def gguf(place: Path) -> Dict[str, Any]:
    """Tensors of plain floats, of whole numbers and of quantized blocks, for both byte orders."""
    import gguf as library

    known = {}
    for name, order in (("little.gguf", library.GGUFEndian.LITTLE), ("big.gguf", library.GGUFEndian.BIG)):
        writer = library.GGUFWriter(place / name, "llama", endianess=order)
        writer.add_token_list(["a", "b", "中"])
        writer.add_tensor("w", np.arange(12, dtype="f4").reshape(3, 4))
        writer.add_tensor("h", np.array([1, NAN, np.inf], "f2"))
        q8 = library.quants.quantize(np.ones((2, 64), "f4"), library.GGMLQuantizationType.Q8_0)
        writer.add_tensor("q", q8, raw_dtype=library.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        known[name] = facts(3, 143, ("w", "h", "q"), 1, 1)
    return known


@maker
def onnx(place: Path) -> Dict[str, Any]:
    """A model with raw and plain tensors, and one whose tensors lie beside it."""
    import onnx as library
    from onnx import helper, numpy_helper

    weights = [
        numpy_helper.from_array(np.array([[NAN, 1, 2]], "f4"), "W"),
        helper.make_tensor("B", library.TensorProto.DOUBLE, [2], [1.0, np.inf]),
        helper.make_tensor("I", library.TensorProto.INT64, [2], [1, -1]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, [None, 3]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "W"], ["y"])], "g", ends[:1], ends[1:], initializer=weights
    )
    library.save(helper.make_model(graph), place / "inside.onnx")
    beside = place / "beside.onnx"
    library.save(helper.make_model(graph), beside, save_as_external_data=True, location="w.bin", size_threshold=0)
    (place / "w.bin").unlink()
    known = facts(3, 7, ("W", "B", "I"), 1, 1)
    return {"inside.onnx": known, "beside.onnx": {**known, "nan": 0}}


@maker
def parquet(place: Path) -> Dict[str, Any]:
    """Tables, plain with checksums and as pyarrow writes them by default."""
    import pyarrow as pa
    import pyarrow.parquet as library

    table = pa.table({"a": [1.0, NAN, None], "b": ["x", "y", None], "c": pa.array([1, 2, np.inf], pa.float32())})
    library.write_table(
        table, place / "plain.parquet", compression="none", use_dictionary=False, write_page_checksum=True
    )
    library.write_table(table, place / "usual.parquet", write_page_checksum=True)
    library.write_table(table.slice(0, 0), place / "empty.parquet")
    keys = ("a", "b", "c")
    return {
        "plain.parquet": facts(3, 9, keys, 1, 1),
        "usual.parquet": facts(3, 9, keys, None, None),
        "empty.parquet": facts(3, 0, keys, None, None),
    }


@maker
def arrow(place: Path) -> Dict[str, Any]:
    """Tables with missing values, nested columns and a dictionary; plain and compressed."""
    import pyarrow as pa
    import pyarrow.feather as feather

    table = pa.table({
        "a": [1.0, 2.0, None], "b": ["x", "y", None], "c": pa.array([1, NAN, np.inf], pa.float32()),
        "d": [[1.0], [], [2.0, 3.0]], "e": pa.array(["p", "q", "p"]).dictionary_encode(),
    })  # fmt: skip
    feather.write_feather(table, place / "plain.arrow", compression="uncompressed")
    feather.write_feather(table, place / "packed.feather")
    known = facts(5, 15, table.column_names, 1, 1)
    return {"plain.arrow": known, "packed.feather": {**known, "nan": None, "inf": None}}


@maker
def hdf5(place: Path) -> Dict[str, Any]:
    """Groups and datasets as h5py writes them by default, and in the newest layout."""
    import h5py

    known = {}
    for name, libver in (("usual.h5", None), ("newest.h5", "latest")):
        with h5py.File(place / name, "w", libver=libver) as file:
            file.attrs["model_config"] = '{"class_name": "Sequential", "module": "keras", "config": {}}'
            file["a/w"] = np.arange(12, dtype="f4")
            file["a/b"] = np.array([1, NAN, np.inf], ">f8")
            file.create_dataset("pieces", data=np.ones((5, 5)), chunks=(2, 2), compression="gzip")
        known[name] = facts(3, 40, ("pieces", "a/b", "a/w"), 1, 1)
    return known


@maker
def keras(place: Path) -> Dict[str, Any]:
    """The zip that Keras 3 writes, made of its parts: Keras itself weighs a gigabyte."""
    hdf5(place)
    with zipfile.ZipFile(place / "model.keras", "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.0.0"}')
        archive.writestr("config.json", '{"module": "keras", "class_name": "Sequential", "config": {"layers": []}}')
        archive.write(place / "usual.h5", "model.weights.h5")
    for name in ("usual.h5", "newest.h5"):
        (place / name).unlink()
    return {"model.keras": facts(3, 40, ("pieces", "a/b", "a/w"), 1, 1)}


def main(folder: Path) -> None:
    """Write every file and the facts."""
    known = {}
    for make in _MAKERS:
        kind = {"tar_gz": "tar.gz", "pickles": "pickle"}.get(make.__name__, make.__name__)
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        known.update({f"{kind}/{name}": fact for name, fact in make(place).items()})
    (folder / "facts.json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("golden"))
