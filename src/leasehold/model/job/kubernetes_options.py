"""Read `kubernetes:` of a job file: what its pod asks a cluster for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from leasehold.errors import UserError
from leasehold.model.values.units import parse_duration, parse_size

from .keys import KUBERNETES_WORDS

Bad = Callable[[str, str, str], UserError]
ACCESS_MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,61}[A-Za-z0-9]|[A-Za-z0-9])?\Z")
_LABEL_KEY = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*\Z")
_CPU = re.compile(r"[1-9][0-9]*m?\Z|[0-9]+\.[0-9]{1,3}\Z")
_TOLERATION = {
    "key": _LABEL_KEY,
    "operator": re.compile(r"(Exists|Equal)\Z"),
    "value": _LABEL,
    "effect": re.compile(r"(NoSchedule|PreferNoSchedule|NoExecute)\Z"),
}


def parse_kubernetes(value: Any, bad: Bad) -> dict[str, Any]:
    """Check the whole key."""
    if not isinstance(value, dict):
        raise bad("kubernetes", f"must be a mapping, not {type(value).__name__}", "kubernetes: {image: …}")
    names = tuple(word.name for word in KUBERNETES_WORDS)
    for name in value:
        if name not in names:
            raise bad(f"kubernetes.{name}", "is not a key here", f"known: {', '.join(names)}")
    return {name: _READERS[name](value[name], f"kubernetes.{name}", bad) for name in value}


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[Any, str, Bad], str]:
    def read(value: Any, key: str, bad: Bad) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not pattern.match(str(value)):
            raise bad(key, f"must be {what}, not {value!r}", "")
        return str(value)

    return read


def _size(value: Any, key: str, bad: Bad) -> int:
    try:
        return parse_size(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise bad(key, str(error), "64GB") from None


def _seconds(value: Any, key: str, bad: Bad) -> int:
    try:
        return int(parse_duration(value if isinstance(value, str) else repr(value)))
    except ValueError as error:
        raise bad(key, str(error), "90s") from None


def _access(value: Any, key: str, bad: Bad) -> str:
    if value not in ACCESS_MODES:
        raise bad(key, f"must be one of {', '.join(ACCESS_MODES)}, not {value!r}", "")
    return str(value)


def _number(value: Any, key: str, bad: Bad) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise bad(key, f"must be a number of 0 or more, not {value!r}", "")
    return value


def _names(value: Any, key: str, bad: Bad) -> list[str]:
    if not isinstance(value, list):
        raise bad(key, f"must be a list, not {type(value).__name__}", "")
    return [_matching(_NAME, "a name")(item, key, bad) for item in value]


def _selector(value: Any, key: str, bad: Bad) -> dict[str, str]:
    if not isinstance(value, dict):
        raise bad(key, f"must map labels to values, not {type(value).__name__}", "{gpu: a100}")
    label, held = _matching(_LABEL_KEY, "a label"), _matching(_LABEL, "a label's value")
    return {label(name, key, bad): held(text, key, bad) for name, text in value.items()}


def _tolerations(value: Any, key: str, bad: Bad) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise bad(key, f"must be a list, not {type(value).__name__}", "[{key: nvidia.com/gpu, operator: Exists}]")
    return [_toleration(item, key, bad) for item in value]


def _toleration(value: Any, key: str, bad: Bad) -> dict[str, str]:
    if not isinstance(value, Mapping) or not set(value) <= set(_TOLERATION):
        raise bad(key, f"each has {', '.join(_TOLERATION)}; seen {value!r}", "")
    return {name: _matching(_TOLERATION[name], f"a {name}")(text, key, bad) for name, text in value.items()}


_READERS: dict[str, Callable[[Any, str, Bad], Any]] = {
    "image": _matching(_IMAGE, "an image"),
    "storage": _size,
    "storage_class": _matching(_NAME, "a storage class"),
    "access": _access,
    "cpu": _matching(_CPU, "cores, as 8 or 500m"),
    "memory": _size,
    "shm": _size,
    "ephemeral": _size,
    "node_selector": _selector,
    "tolerations": _tolerations,
    "pull_secrets": _names,
    "service_account": _matching(_NAME, "a service account"),
    "priority_class": _matching(_NAME, "a priority class"),
    "queue": _matching(_NAME, "a queue's name"),
    "run_as_user": _number,
    "deadline": _seconds,
}
