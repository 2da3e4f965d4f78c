"""Convert arrays of every library to bytes: name them, copy them out, rebuild them. No library is imported for it."""

from __future__ import annotations

import ctypes
import pickle
import sys
from typing import Any, NamedTuple, Optional, Tuple

from leasehold.kit.files.checkpoint_file import Entry

_TORCH = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "C128",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip
_TORCH_BACK = {short: name for name, short in _TORCH.items()}
_NUMPY = {
    "f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u8": "U64", "u4": "U32",
    "u2": "U16", "u1": "U8", "b1": "BOOL", "c8": "C64", "c16": "C128",
}  # fmt: skip
_NUMPY_BACK = {short: name for name, short in _NUMPY.items()}
_EXTENSIONS = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}  # ml_dtypes, beside jax
_EXTENSIONS_BACK = {short: name for name, short in _EXTENSIONS.items()}
WIDTHS = {
    "F64": 8, "I64": 8, "U64": 8, "C64": 8, "C128": 16, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "U8": 1, "I8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip


class Leaf(NamedTuple):
    """One array to save: its name, its shape as bytes, and the live object."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    bytes: int
    library: str  # torch, numpy, jax or bytes
    source: Any
    identity: Any = None  # equal for two views of the same memory


def torch_now() -> Any:
    """Return torch if the script has imported it."""
    return sys.modules.get("torch")


def leaf_of(value: Any, name: str) -> Optional[Leaf]:
    """Describe a value as an array, if it has a plain representation."""
    torch, numpy = torch_now(), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_leaf(torch, value, name)
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_leaf(numpy, value, name, "numpy" if isinstance(value, numpy.ndarray) else "scalar")
    if type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "__array__"):
        jax = sys.modules["jax"]
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return None  # typed PRNG keys
        return _numpy_leaf(numpy, numpy.asarray(value), name, "jax") if numpy is not None else None
    return None


def bytes_leaf(data: bytes, name: str) -> Leaf:
    """Describe plain bytes as an array."""
    return Leaf(name, "U8", (len(data),), len(data), "bytes", data)


def copy_out(leaf: Leaf, buffer: Any, at: int) -> None:
    """Copy the array's bytes into the buffer; from a device asynchronously, in the order of its current stream."""
    if not leaf.bytes:
        return
    if leaf.library == "torch" and leaf.source.device.type == "cpu" and leaf.source.is_contiguous():
        # Not copy_: its threads wait for each other by spinning, which is slow on shared cores.
        ctypes.memmove(ctypes.addressof(ctypes.c_char.from_buffer(buffer)) + at, leaf.source.data_ptr(), leaf.bytes)
    elif leaf.library == "torch":
        torch = torch_now()
        target = torch.frombuffer(buffer, dtype=leaf.source.dtype, count=leaf.source.numel(), offset=at)
        target.view(leaf.source.shape).copy_(leaf.source, non_blocking=leaf.source.is_cuda)
    elif leaf.library == "bytes":
        memoryview(buffer)[at : at + leaf.bytes] = leaf.source
    else:
        numpy = sys.modules["numpy"]
        target = numpy.frombuffer(buffer, numpy.uint8, leaf.bytes, at).view(leaf.source.dtype)
        target.reshape(leaf.source.shape)[...] = leaf.source


def make_again(entry: Entry, library: str, buffer: Any) -> Any:
    """Rebuild an array from the bytes of a file; it shares the buffer's memory, except jax arrays and scalars."""
    data = memoryview(buffer)[entry.begin : entry.end]
    if library == "torch":
        import torch

        dtype = getattr(torch, _TORCH_BACK[entry.dtype])
        flat = torch.frombuffer(data, dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
        return flat.reshape(entry.shape)
    if library == "bytes":
        return bytes(data)
    import numpy

    array = numpy.frombuffer(data, dtype=_numpy_dtype(numpy, entry.dtype)).reshape(entry.shape)
    if library == "scalar":
        return array[()]
    if library == "jax":
        import jax.numpy

        return jax.numpy.array(array)
    return array


def unpickle(data: bytes) -> Any:
    """Load a pickled part of the trainer's own checkpoint; at home these are only scanned, never loaded."""
    return pickle.loads(data)


def _torch_leaf(torch: Any, value: Any, name: str) -> Optional[Leaf]:
    if hasattr(value, "to_local") or hasattr(value, "local_shards"):
        raise TypeError("%s is split over processes; use Checkpointer(..., sharded=True)" % name)
    short = _TORCH.get(str(value.dtype)[len("torch.") :])
    if short is None or value.layout != torch.strided or value.device.type == "meta" or value.is_quantized:
        return None
    source = value.detach()
    if source.is_conj() or source.is_neg():
        source = source.resolve_conj().resolve_neg()
    shape = tuple(int(size) for size in source.shape)
    size = source.numel() * source.element_size()
    same = (str(source.device), source.data_ptr(), source.dtype, shape, tuple(source.stride())) if size else None
    return Leaf(name, short, shape, size, "torch", source, same)


def _numpy_leaf(numpy: Any, value: Any, name: str, library: str) -> Optional[Leaf]:
    short = _EXTENSIONS.get(value.dtype.name) or _NUMPY.get(value.dtype.str[1:])
    if short is None:
        return None
    array = numpy.asarray(value)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    same = (array.__array_interface__["data"][0], short, array.shape, array.strides) if library == "numpy" else None
    return Leaf(name, short, tuple(array.shape), array.nbytes, library, array, same if array.nbytes else None)


def _numpy_dtype(numpy: Any, short: str) -> Any:
    if short in _EXTENSIONS_BACK:
        import ml_dtypes

        return getattr(ml_dtypes, _EXTENSIONS_BACK[short])
    return numpy.dtype("<" + _NUMPY_BACK[short])
