"""What the libraries that people load a file with would call, without calling it.

CPython raises an audit event before an unpickler looks a name up. A hook that refuses every name outside a short
list of data classes stops the load there and says which name it was. None of our own code reads the file.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import re
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

_DATA = re.compile(
    r"(collections (OrderedDict|defaultdict|deque)"
    r"|_codecs encode"
    r"|(__builtin__|builtins) (set|frozenset|complex|bytearray|slice|range|xrange|int|float|bool|str|bytes|list|dict"
    r"|tuple|object|long)"
    r"|torch (Size|device|[A-Za-z0-9]+Storage|float\w*|bfloat16|half|double|u?int\w*|long|short|bool|complex\w*"
    r"|cfloat|cdouble|chalf|sparse_coo|sparse_cs[rc]|sparse_bs[rc]|strided|contiguous_format|channels_last"
    r"|preserve_format"
    r"|q?u?int8|qint32|per_tensor_affine|per_channel_affine|tensor|Tensor)"
    r"|torch\.(_utils _rebuild_\w+|storage \w+Storage|_tensor _rebuild_from_type_v2|nn\.parameter Parameter"
    r"|_C _\w+Info|serialization _get_layout|\w*Storage)"
    r"|torch\.distributed\.checkpoint\.metadata \w+"
    r"|torch\.distributed\.checkpoint\.filesystem _StorageInfo"
    r"|torch\.distributed\.checkpoint\.planner \w+"
    r"|numpy(\._?core\.(multiarray|numeric))? (_reconstruct|_frombuffer|scalar|ndarray|dtype|[a-z]+\d*_?)"
    r"|numpy\.dtypes \w+DType|numpy\.ma\.core (MaskedArray|_mareconstruct)"
    r"|(datetime (datetime|date|time|timedelta|timezone)|decimal Decimal|fractions Fraction|uuid UUID)"
    r"|pathlib(\._local)? (Pure)?(Posix|Windows)?Path)\Z"
)  # fmt: skip
# The arrays and modules of frameworks: code is needed to load them, though they are no attack.
_MODELS = re.compile(
    r"(torch\.nn[. ]|torch\.optim\.|torchvision\.|transformers\.|sklearn\.|joblib\.numpy_pickle |xgboost\.|__main__ "
    r"|argparse Namespace|numpy\.random\._)"
)
# A text that begins with a c and is no pickle "names" its first two lines.
_NAME = re.compile(r"names [\w.]+ [\w.]+\Z")
_ZIP = b"PK\x03\x04"


class Named(RuntimeError):
    """A pickle named something that is no data."""


class Loads:
    """Loads one file in every way, and keeps what each came to."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._named: list[str] = []
        warnings.simplefilter("ignore")
        for name in ("torch", "numpy", "joblib"):  # before names are refused
            importlib.import_module(name)
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "pickle.find_class" and not _DATA.match(f"{details[0]} {details[1]}"):
            self._named.append(f"{details[0]} {details[1]}")
            raise Named(self._named[-1])

    def attempt(self, way: str, load: Callable[[], object]) -> None:
        """Load it in one way; whatever is raised is an answer."""
        self._named.clear()
        try:
            load()
            said = "loads"
        except BaseException as error:  # noqa: BLE001  hostile files: any library may end in any way
            said = f"fails: {type(error).__name__}"
        self.found[way] = f"names {self._named[0]}" if self._named else said


def load_every_way(path: str) -> dict[str, str]:
    """Say what each library does with the file: `names X`, `loads` or `fails: …`."""
    loads = Loads()
    if os.path.isdir(path):
        loads.attempt("pickle", lambda: _unpickle(os.path.join(path, ".metadata"), pickle.load))
        return loads.found
    torch, numpy = importlib.import_module("torch"), importlib.import_module("numpy")
    loads.attempt("pickle", lambda: _unpickle(path, pickle.load))
    loads.attempt("pickle in Python", lambda: _unpickle(path, vars(pickle)["_load"]))
    loads.attempt("torch", lambda: torch.load(path, map_location="cpu", weights_only=False))
    with open(path, "rb") as file:
        head = file.read(8)
    if head.startswith((_ZIP, b"\x93NUMPY")):
        loads.attempt("numpy", lambda: _load_arrays(numpy, path))
    if head.startswith(_ZIP):
        loads.attempt("pickles of a zip", lambda: _unpickle_members(path))
    if path.endswith((".joblib", ".pkl.z", ".pkl.gz")):
        loads.attempt("joblib", lambda: importlib.import_module("joblib").load(path))
    if path.endswith(".tar"):
        loads.found["tar"] = _tar(path)
    return loads.found


def truth_of(found: dict[str, str]) -> str:
    """`attack`: a library would call what is no data; `code`: only a model's own classes; `plain`: neither."""
    named = [said[6:] for said in found.values() if _NAME.match(said)]
    if any(not _MODELS.match(name) for name in named):
        return "attack"
    return "code" if named else "plain"


def _unpickle(path: str, load: Callable[[Any], object]) -> None:
    with open(path, "rb") as file:
        load(file)


def _load_arrays(numpy: Any, path: str) -> None:
    loaded = numpy.load(path, allow_pickle=True)
    for name in getattr(loaded, "files", ()):
        loaded[name]


def _unpickle_members(path: str) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith((".pkl", ".pickle")):
                pickle.load(io.BytesIO(archive.read(name)))


def _tar(path: str) -> str:
    """Whether Python's own filter for foreign archives takes every member."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                tarfile.data_filter(member, "/nowhere")
    except tarfile.FilterError as error:
        return f"names tar {type(error).__name__}"
    except Exception as error:  # noqa: BLE001  hostile files: tarfile may raise anything
        return f"fails: {type(error).__name__}"
    return "loads"
