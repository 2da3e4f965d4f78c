"""Check the names in a Keras model's description: Keras's own layers are data, functions and other classes are code."""

from __future__ import annotations

import json
import re
from typing import Dict, List

from leasehold.kit.readers.base.result import Limits, Unreadable, legible
from leasehold.kit.readers.plain.json_text import check_depth

_OWN = ("keras", "tensorflow.keras", "tf_keras", "tensorflow.python.keras", "builtins", "__builtin__")
_CODE = ("Lambda", "__lambda__", "function", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer")
# Keras's own layers are named as classes; a function named in their place is called.
_CLASS = re.compile(r"_*[A-Z][A-Za-z0-9_]*|__(tensor|keras_tensor|numpy|bytes|ellipsis|slice|list|tuple|dict)__")
_MOST_NAMED = 100


def opaque_layers(raw: bytes, limits: Limits) -> List[str]:
    """Return the names in a description that need code which Keras does not include."""
    try:
        text = raw.decode("utf-8")
        check_depth(text, limits)
        waiting: List[object] = [json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise Unreadable("the model's description is no JSON: %s" % legible(str(error))) from error
    found: Dict[str, None] = {}
    while waiting and len(found) < _MOST_NAMED:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            name = _needs_code(value)
            if name:
                found[legible(name, 200)] = None
    return sorted(found)


def _needs_code(facts: Dict[str, object]) -> str:
    name, module = facts.get("class_name"), facts.get("module")
    if not isinstance(name, str):
        return ""
    if name in _CODE or not _CLASS.fullmatch(name) or (module is not None and not _is_own(module)):
        return "%s%s" % ("%s." % module if isinstance(module, str) else "keras ", name)
    registered = facts.get("registered_name")
    if isinstance(registered, str) and ">" in registered and not registered.startswith("keras>"):
        return registered
    return ""


def _is_own(module: object) -> bool:
    return isinstance(module, str) and any(module == own or module.startswith(own + ".") for own in _OWN)
