"""The globals a torch checkpoint of plain data names; everything else is opaque.

Sizes are of one storage element. Sources: torch/storage.py, torch/_utils.py and
torch/_weights_only_unpickler.py of torch 1.6 to 2.13.
"""

from __future__ import annotations

from typing import Dict, FrozenSet

DTYPE_BYTES: Dict[str, int] = {
    **dict.fromkeys(("complex128",), 16),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32", "qint32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16"), 2),
    **dict.fromkeys(("uint8", "int8", "bool", "qint8", "quint8", "quint4x2", "quint2x4"), 1),
    **dict.fromkeys(("bits8", "bits4x2", "bits2x4", "bits1x8", "float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), 1),
}

_STORAGE_DTYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "QUInt8Storage": "quint8",
    "QInt8Storage": "qint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
STORAGE_BYTES: Dict[str, int] = {
    **{f"torch.{name}": DTYPE_BYTES[dtype] for name, dtype in _STORAGE_DTYPES.items()},
    **{f"torch.cuda.{name}": DTYPE_BYTES[dtype] for name, dtype in _STORAGE_DTYPES.items()},
    "torch.storage.UntypedStorage": 1,
    "torch.UntypedStorage": 1,
}
# By the names that the scan for NaN uses.
FLOATS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "complex128": "C128", "complex64": "C64", "complex32": "C32",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
STORAGE_DTYPE: Dict[str, str] = {  # the untyped ones are missing: their type follows from the tensors over them
    f"torch.{device}{name}": dtype for name, dtype in _STORAGE_DTYPES.items() for device in ("", "cuda.")
}
# Elements of a tensor that share one element of its storage.
PACKED_ELEMENTS: Dict[str, int] = {"torch.QUInt4x2Storage": 2, "torch.QUInt2x4Storage": 4}

_BUILTIN_DATA = ("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set")
_BUILTIN_OTHER = ("object", "range", "slice", "str", "tuple")
NUMPY_CALLS = ("multiarray.scalar", "multiarray._reconstruct", "numeric._frombuffer")
_TORCH = (
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.serialization._get_layout",
    "torch.storage.TypedStorage",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_affine",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_sparse_csr_tensor",
    "torch._utils._rebuild_nested_tensor",
    "torch._utils._rebuild_device_tensor_from_numpy",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor",
    "torch._utils._rebuild_wrapper_subclass",
)

# Names that stand for plain data. Calling one gives an inert value and needs no check of its own.
PLAIN: FrozenSet[str] = frozenset(
    [
        *(f"builtins.{name}" for name in (*_BUILTIN_DATA, *_BUILTIN_OTHER)),
        *(f"collections.{name}" for name in ("OrderedDict", "defaultdict", "Counter", "deque")),
        *(f"numpy.{core}.{name}" for core in ("core", "_core") for name in NUMPY_CALLS),
        *(f"torch.{name}" for name in DTYPE_BYTES),
        *STORAGE_BYTES,
        *_TORCH,
        "_codecs.encode",
        "copyreg._reconstructor",
        "numpy.dtype",
        "numpy.ndarray",
    ]
)

LAYOUTS: FrozenSet[str] = frozenset(
    "torch.%s" % name
    for name in ("strided", "jagged", "_mkldnn", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
)

# Holders of numbers that are not in a storage: these are not examined.
NUMPY_VALUES: FrozenSet[str] = frozenset(f"numpy.{core}.{name}" for core in ("core", "_core") for name in NUMPY_CALLS)

# Python 2 names, which pickle protocols 0 to 2 still write (torch.save uses 2).
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_OLD_NAMES = {"__builtin__.xrange": "builtins.range", "__builtin__.unicode": "builtins.str"}


def full_name(module: str, name: str) -> str:
    """Return "module.name", by its Python 3 name."""
    old = f"{module}.{name}"
    return _OLD_NAMES.get(old) or f"{_OLD_MODULES.get(module, module)}.{name}"
