"""Read typed values from plain data; each error contains the path of its key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])\Z")
_KEY_SHAPE = re.compile(
    r"(?:sk|hf|ghp|gho|wandb|rpa|kgat|xox[abp])[-_][A-Za-z0-9]{16,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\beyJ[\w-]{10,}\.[\w-]{10,}\.|\b[0-9a-f]{40}\b|\b[0-9a-f]{64}\b"
    r"|\b[A-Za-z]\w*(?:KEY|TOKEN|SECRET|PASSWORD)\s*=\s*[^\s$<{][^\s]{7,}"
)
_REQUIRED: Any = object()


class Reader:
    """One mapping of a facts file, and its path."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"{path or 'the file'} must be a mapping, not {_shown(value)}")
        self._value = value
        self._path = path

    def only(self, known: Iterable[str]) -> None:
        """Refuse unknown keys, and suggest the nearest known one."""
        names = sorted(known)
        for key in self._value:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
                raise ValueError(f"{self._at(key)}: unknown key; {hint}")

    def names(self) -> list[str]:
        """List the keys."""
        return list(self._value)

    def has(self, key: str) -> bool:
        """Return whether the key is present."""
        return key in self._value

    def inside(self, key: str) -> Reader:
        """Return a reader of a nested mapping."""
        return Reader(self._get(key), self._at(key))

    def items(self, key: str) -> list[Reader]:
        """Return a reader of each mapping of a list, by its name if it has one."""
        return self._readers(key, self._get(key))

    def texts_and_items(self, key: str) -> tuple[tuple[str, ...], list[Reader]]:
        """Read a list that mixes texts and mappings; both are empty if the key is missing."""
        value = self._value.get(key)
        if value is None:
            return (), []
        if not isinstance(value, list):
            raise self.bad(key, "must be a list of texts and rules", value)
        texts = tuple(self._plain(key, item) for item in value if not isinstance(item, dict))
        return texts, self._readers(key, [item for item in value if isinstance(item, dict)])

    def _readers(self, key: str, value: Any) -> list[Reader]:
        if not isinstance(value, list):
            raise self.bad(key, "must be a list", value)
        names = [item.get("name", index) if isinstance(item, dict) else index for index, item in enumerate(value)]
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise self.bad(key, "each name may stand once", twice)
        return [Reader(item, f"{self._at(key)}[{name}]") for name, item in zip(names, value, strict=True)]

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """Read a non-empty text that is not shaped like a key."""
        if default is not _REQUIRED and self._value.get(key) is None:
            return str(default)
        return self._plain(key, self._get(key))

    def texts(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """Read a list of texts."""
        if default is not _REQUIRED and self._value.get(key) is None:
            return tuple(default)
        value = self._get(key)
        if not isinstance(value, list):
            raise self.bad(key, "must be a list of texts", value)
        return tuple(self._plain(key, item) for item in value)

    def mapping(self, key: str) -> dict[str, str]:
        """Read a mapping of texts."""
        at = self.inside(key)
        return {name: at.text(name) for name in at.names()}

    def one_of(self, key: str, known: tuple[str, ...], default: Any = _REQUIRED) -> str:
        """Read a word of a closed set."""
        value = self.text(key, default)
        if value not in known:
            raise self.bad(key, f"must be one of {', '.join(known)}", value)
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """Read true or false; the text "no" would count as true."""
        value = self._value.get(key, default) if default is not _REQUIRED else self._get(key)
        if not isinstance(value, bool):
            raise self.bad(key, "must be true or false", value)
        return value

    def number(self, key: str, default: Any = _REQUIRED) -> Any:
        """Read a non-negative number exactly as written."""
        if default is not _REQUIRED and self._value.get(key) is None:
            return default
        value = self._get(key)
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                raise InvalidOperation
            found = Decimal(str(value))
        except InvalidOperation:
            raise self.bad(key, "must be a number", value) from None
        if not found.is_finite() or found < 0:
            raise self.bad(key, "must not be negative", value)
        return found

    def month(self, key: str) -> str:
        """Read a month as YYYY-MM."""
        value = self.text(key)
        if not _MONTH.match(value):
            raise self.bad(key, "must be a month as YYYY-MM", value)
        return value

    def bad(self, key: str, wanted: str, value: Any) -> ValueError:
        """Build an error."""
        return ValueError(f"{self._at(key)} {wanted}, not {_shown(value)}")

    def _get(self, key: str) -> Any:
        if key not in self._value:
            raise ValueError(f"{self._at(key)} is missing")
        return self._value[key]

    def _plain(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.bad(key, "must be text", value)
        if _KEY_SHAPE.search(value):
            raise ValueError(f"{self._at(key)} looks like a key or token; profiles name secrets, they never hold one")
        return value

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
