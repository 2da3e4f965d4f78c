"""The argument of torch.save: the keys of a dictionary, and whether the file holds classes beside tensors."""

from __future__ import annotations

import ast
import re

from leasehold.lifecycle.init.text.project_facts import Kind
from leasehold.lifecycle.init.text.source import Source, text_of

_SETTINGS = re.compile(r"(?:args|cfg|config|conf|opts?|options|hparams|hyper_?parameters|flags|namespace)\Z", re.I)
_STATES = ("state_dict", "get_rng_state", "get_rng_state_all", "to_dict", "model_dump", "asdict")
_STATE = re.compile(r"state|ckpt|checkpoint|last|latest|weights|params|model", re.I)
_JSON_STATE = re.compile(r"(?:^|[/_.-])(?:state|ckpt|checkpoint)(?:[_.*-]|\Z)[^/]*\Z", re.I)
_MAX_KEYS = 12


def what_is_saved(source: Source, node: ast.expr | None) -> tuple[tuple[str, ...], bool]:
    """Return the top-level keys that can be read from the code, and whether the file will hold classes."""
    if isinstance(node, ast.Name):
        found = source.last_assigned(node.id, node.lineno + 1)
        node = found[1] if found else node
    if isinstance(node, ast.Dict):
        keys = tuple(text_of(key) for key in node.keys if key is not None and text_of(key))
        opaque = any(_holds_classes(source, key, value) for key, value in zip(node.keys, node.values, strict=True))
        return tuple(key for key in keys if key.isprintable())[:_MAX_KEYS], opaque
    if isinstance(node, ast.Call) and source.dotted(node.func) == "dict":
        keys = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        return keys[:_MAX_KEYS], any(_holds_classes(source, None, keyword.value) for keyword in node.keywords)
    return (), isinstance(node, ast.Name) and node.id.lower() in ("model", "net", "network", "module")


def kind_of(pattern: str, loads: str, otherwise: Kind) -> Kind:
    """Return the kind of a saved file: arrays named for weights or state, and JSON plainly so, are checkpoints."""
    if loads == "json" and _JSON_STATE.search(pattern):
        return Kind.CHECKPOINT
    return Kind.CHECKPOINT if loads in ("npy", "npz") and _STATE.search(pattern) else otherwise


def _holds_classes(source: Source, key: ast.expr | None, value: ast.expr) -> bool:
    """Return whether classes are saved: an argparse namespace or config object, but not vars(args) or .state_dict()."""
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return name not in (*_STATES, "vars", "dict", "list", "int", "float", "str", "tuple") and bool(
            _SETTINGS.match(text_of(key))
        )
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
    made = source.last_assigned(name, value.lineno + 1) if isinstance(value, ast.Name) else None
    if made is not None and isinstance(made[1], ast.Dict | ast.DictComp):
        return False
    return bool(_SETTINGS.match(name)) or name in ("model", "net")
