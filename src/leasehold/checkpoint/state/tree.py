"""Convert Python values to JSON text and arrays, and back: no pickle for anything a state_dict usually holds."""

from __future__ import annotations

import importlib
import json
import math
import pickle
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Tuple

from leasehold.kit.files.checkpoint_file import PICKLED

from .leaves import Leaf, bytes_leaf, leaf_of, torch_now, unpickle


class Flat:
    """A flattened value: `text` describes its structure, `leaves` are its arrays."""

    def __init__(self, value: Any) -> None:
        self.leaves: List[Leaf] = []
        self.pickled: List[str] = []  # classes without a plain representation
        self._names: Dict[str, int] = {}
        self._seen: Dict[Any, str] = {}
        self.text = json.dumps(self._node(value, ""), separators=(",", ":"))

    def _node(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return [self._node(item, "%s.%d" % (path, n)) for n, item in enumerate(value)]
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self._node(item, _below(path, key)) for key, item in value.items()}
        if kind in (dict, OrderedDict):
            return self._mapping(value, path)
        if isinstance(value, tuple):
            return self._tuple(value, path)
        return self._array(value, path) or self._small(value, path) or self._pickle(value, path)

    def _mapping(self, value: Any, path: str) -> Dict[str, Any]:
        pairs = [[self._node(key, path), self._node(item, _below(path, str(key)))] for key, item in value.items()]
        if type(value) is dict:
            return {"$dict": pairs}
        metadata = getattr(value, "_metadata", None)  # the versions of modules, which load_state_dict reads
        return {"$ordered": pairs, "metadata": self._node(metadata, path)}

    def _tuple(self, value: Any, path: str) -> Dict[str, Any]:
        kind, torch = type(value), torch_now()
        items = [self._node(item, "%s.%d" % (path, n)) for n, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": items}
        if torch is not None and kind is torch.Size:
            return {"$size": items}
        if hasattr(kind, "_fields") and "<" not in kind.__qualname__:  # optax keeps its state in these
            return {"$named": [kind.__module__, kind.__qualname__], "items": items}
        return self._pickle(value, path)

    def _array(self, value: Any, path: str) -> Any:
        leaf = leaf_of(value, path)
        return {"$array": self._keep(leaf), "of": leaf.library} if leaf is not None else None

    def _small(self, value: Any, path: str) -> Any:
        torch = torch_now()
        if type(value) in (bytes, bytearray):
            return {"$" + type(value).__name__: self._keep(bytes_leaf(bytes(value), path))}
        if type(value) in (set, frozenset):
            return {"$" + type(value).__name__: [self._node(item, path) for item in value]}
        if type(value) is complex:
            return {"$complex": [self._node(value.real, path), self._node(value.imag, path)]}
        if torch is not None and type(value) in (torch.dtype, torch.device):
            return {"$" + type(value).__name__: str(value)}
        return None

    def _pickle(self, value: Any, path: str) -> Dict[str, Any]:
        try:
            data = pickle.dumps(value, 4)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise TypeError("%s holds a %s, which cannot be saved: %s" % (path, type(value), error)) from error
        self.pickled.append("%s (%s.%s)" % (path, type(value).__module__, type(value).__qualname__))
        return {"$pickle": self._keep(bytes_leaf(data, PICKLED + path))}

    def _keep(self, leaf: Leaf) -> str:
        """Keep a leaf once, however many places refer to its memory; return its name."""
        if leaf.identity is not None and leaf.identity in self._seen:
            return self._seen[leaf.identity]
        count = self._names[leaf.name] = self._names.get(leaf.name, 0) + 1
        name = leaf.name if count == 1 else "%s#%d" % (leaf.name, count)
        self.leaves.append(leaf._replace(name=name))
        if leaf.identity is not None:
            self._seen[leaf.identity] = name
        return name


def rebuild(node: Any, array: Callable[[str, str], Any]) -> Any:
    """Rebuild the value of a node; `array` returns the array of a name for a library."""
    return _Builder(array).value(node)


class _Builder:
    def __init__(self, array: Callable[[str, str], Any]) -> None:
        self._array = array

    def value(self, node: Any) -> Any:
        """Build the value of one node."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        first = next(iter(node), "")
        if not first.startswith("$"):
            return {key: self.value(item) for key, item in node.items()}
        return self._tagged(first[1:], node[first], node)

    def _tagged(self, tag: str, body: Any, node: Dict[str, Any]) -> Any:
        if tag == "array":
            return self._array(body, node["of"])
        if tag in ("bytes", "bytearray"):
            data = self._array(body, "bytes")
            return data if tag == "bytes" else bytearray(data)
        if tag == "pickle":
            return unpickle(self._array(body, "bytes"))
        if tag in ("dict", "ordered"):
            return self._mapping(tag, body, node)
        if tag == "float":
            return float(body)
        if tag in ("dtype", "device"):
            import torch

            return torch.device(body) if tag == "device" else getattr(torch, body.partition(".")[2])
        return self._sequence(tag, [self.value(item) for item in body], node)

    def _mapping(self, tag: str, pairs: List[Tuple[Any, Any]], node: Dict[str, Any]) -> Any:
        made: Any = {} if tag == "dict" else OrderedDict()
        for key, item in pairs:
            made[self.value(key)] = self.value(item)
        metadata = self.value(node.get("metadata"))
        if metadata is not None:
            made._metadata = metadata
        return made

    def _sequence(self, tag: str, items: List[Any], node: Dict[str, Any]) -> Any:
        if tag == "tuple":
            return tuple(items)
        if tag in ("set", "frozenset"):
            return set(items) if tag == "set" else frozenset(items)
        if tag == "complex":
            return complex(*items)
        if tag == "size":
            import torch

            return torch.Size(items)
        if tag == "named":
            module, name = node["$named"]
            made: Any = importlib.import_module(module)
            for part in name.split("."):
                made = getattr(made, part)
            return made(*[self.value(item) for item in node["items"]])
        raise ValueError("a newer version wrote this: %r is unknown" % tag)


def _below(path: str, key: str) -> str:
    return "%s.%s" % (path, key) if path else key
