"""The confined process that calls torch.load(weights_only=True) on each file named on stdin.

Run by path with `python -I -B` of an interpreter that may have torch (Python 3.8 and up); never imported by
the parent. Answers are JSON lines on stdout: the walls reached, then one answer a file.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import sys
import warnings
from typing import Any

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from leasehold.lifecycle.confine import walls

# An installed leasehold lies beside other packages, possibly a torch built for another Python.
sys.path.pop()

_OPEN_FILES = 64
_OTHER_PROTOCOL = "Unsupported operand"
# Plain-data types that kit.readers considers harmless and torch does not allow by default: without them a
# NumPy scalar among the metrics makes torch refuse the whole checkpoint.
_HARMLESS = {
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("scalar", "_reconstruct"),
    "numpy._core.multiarray": ("scalar", "_reconstruct"),
    "collections": ("defaultdict", "deque"),
    "builtins": ("bool", "dict", "float", "frozenset", "int", "list", "range", "slice", "str", "tuple"),
}


def main() -> None:
    """Import torch, raise the walls, then load each file and answer."""
    request = json.load(sys.stdin)
    # Before torch starts threads: a process with several cannot enter a user namespace.
    reached = walls.leave_network(reopens_files=True) + walls.forbid_new_privileges()
    warnings.simplefilter("ignore")
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # noqa: BLE001  a broken installation fails in any way; it is reported
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        _say({"absent": "torch not installed" if missing else f"torch does not import: {_shown(error)}"})
        return
    _allow_harmless(torch)
    times = request["cpu_s"]
    reached += walls.limit_resources(sum(times), request["address_bytes"], _OPEN_FILES, request["data_bytes"])
    _say({"confinement": reached})
    for path, cpu_s in zip(request["paths"], times):  # noqa: B905  Python 3.8
        walls.allow_time(cpu_s)
        _say(_load(torch, path))


def _load(torch: Any, path: str) -> dict[str, object]:
    options = {"map_location": "cpu", "weights_only": True}
    if "mmap" in inspect.signature(torch.load).parameters and _is_zip(path):  # torch >= 2.1; not its legacy format
        options["mmap"] = True
    try:
        torch.load(path, **options)
    except (MemoryError, walls.TimeIsUp):
        said = "refused: it takes more memory or processor time than its size allows (`read_memory`, `read_time`)"
        return {"torch_load": said, "by_policy": False}
    except pickle.UnpicklingError as error:  # a class or an opcode that weights_only does not accept
        said = str(error).partition("WeightsUnpickler error:")[2].strip()
        by_protocol = said.startswith(_OTHER_PROTOCOL)  # a valid file of pickle_protocol=4: torch reads none higher
        return {"torch_load": f"refused: {_shown(error)}", "by_policy": True, "by_protocol": by_protocol}
    except Exception as error:  # noqa: BLE001  the process boundary: whatever torch raises is its answer
        return {"torch_load": f"refused: {_shown(error)}", "by_policy": False}
    return {"torch_load": "ok", "by_policy": False}


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _allow_harmless(torch: Any) -> None:
    if not hasattr(torch.serialization, "add_safe_globals"):  # torch < 2.4
        return
    found = []
    for module, names in _HARMLESS.items():
        try:
            found += [getattr(importlib.import_module(module), name) for name in names]
        except (ImportError, AttributeError):  # no NumPy, or another generation of it
            continue
    dtypes = sys.modules.get("numpy.dtypes")  # NumPy >= 1.25
    found += [value for name, value in vars(dtypes).items() if name.endswith("DType")] if dtypes else []
    torch.serialization.add_safe_globals(found)


def _shown(error: BaseException) -> str:
    """Return torch's findings, without its advice on how to load the file unsafely."""
    said = str(error).rpartition("WeightsUnpickler error:")[2].strip().partition("\n")[0].partition("Please use")[0]
    if said.startswith(_OTHER_PROTOCOL):
        said += "; weights_only reads what torch.save writes with its default pickle_protocol"
    return f"{type(error).__name__}: {''.join(c if c.isprintable() else '?' for c in said[:300].strip())}"


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
