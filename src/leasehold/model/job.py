"""A job: what to run and what must come home. Portable; names no machine."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.paths import UnsafePath, check_name, check_relative

LOADERS = ("torch", "safetensors", "npy", "npz", "json", "jsonl", "csv", "bytes")
_SUFFIXES = {
    ".pt": "torch", ".pth": "torch", ".ckpt": "torch", ".safetensors": "safetensors", ".npy": "npy",
    ".npz": "npz", ".json": "json", ".jsonl": "jsonl", ".csv": "csv",
}  # fmt: skip
_KEYS = ("name", "run", "smoke", "artifacts", "env", "attempts")
_ARTIFACT_KEYS = ("loads", "keys", "allow_opaque")


@dataclass(frozen=True)
class Artifact:
    """A promise: files matching this pattern under $LEASE_OUT come home and load."""

    pattern: str
    loads: str
    keys: tuple[str, ...] = ()
    allow_opaque: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Spell canonically."""
        return {
            "pattern": self.pattern,
            "loads": self.loads,
            "keys": list(self.keys),
            "allow_opaque": self.allow_opaque,
        }


@dataclass(frozen=True)
class Job:
    """What to run and what must come home."""

    name: str
    run: str
    artifacts: tuple[Artifact, ...]
    smoke: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 3

    def identity(self) -> dict[str, Any]:
        """What is executed: the run id is a hash of this and the code. Promises may be mended without a new run."""
        return {"name": self.name, "run": self.run, "env": dict(self.env)}

    def as_dict(self) -> dict[str, Any]:
        """Spell the whole job canonically."""
        return {
            "name": self.name,
            "run": self.run,
            "smoke": self.smoke,
            "artifacts": [artifact.as_dict() for artifact in self.artifacts],
            "env": dict(self.env),
            "attempts": self.attempts,
        }


def parse_job(value: Any, source: str) -> Job:
    """Read a job from parsed YAML; every complaint names the file and the key."""
    if not isinstance(value, dict):
        raise _bad(source, "", f"a job is a mapping of keys, not {_kind(value)}")
    _known_keys(value, _KEYS, source, "")
    try:
        name = check_name(value.get("name"), "name")
    except UnsafePath as error:
        raise _bad(source, "name", str(error)) from None
    artifacts = _artifacts(value.get("artifacts"), source)
    return Job(
        name=name,
        run=_text(value, "run", source),
        artifacts=artifacts,
        smoke=_text(value, "smoke", source) if "smoke" in value else "",
        env=_env(value.get("env", {}), source),
        attempts=_attempts(value.get("attempts", 3), source),
    )


def _artifacts(value: Any, source: str) -> tuple[Artifact, ...]:
    if isinstance(value, list):
        value = dict.fromkeys(value) if all(isinstance(item, str) for item in value) else value
    if not isinstance(value, dict) or not value:
        raise _bad(
            source, "artifacts", "says what must come home, and is missing or empty",
            hint="artifacts:\n          metrics.json: json\n          best.pt: torch",
        )  # fmt: skip
    return tuple(_artifact(pattern, how, source) for pattern, how in value.items())


def _artifact(pattern: Any, how: Any, source: str) -> Artifact:
    key = f"artifacts.{pattern}"
    try:
        check_relative(pattern)
    except UnsafePath as error:
        raise _bad(source, key, f"{error}; artifacts are relative to $LEASE_OUT") from None
    how = {"loads": how} if how is None or isinstance(how, str) else how
    if not isinstance(how, dict):
        raise _bad(source, key, f"write how it loads ({', '.join(LOADERS)}), not {_kind(how)}")
    _known_keys(how, _ARTIFACT_KEYS, source, key + ".")
    loads = how.get("loads") or _guess(pattern)
    if loads not in LOADERS:
        raise _bad(source, key, f"nothing here loads {loads!r}", hint=_nearest(str(loads), LOADERS))
    keys = how.get("keys", [])
    if not isinstance(keys, list) or not all(isinstance(item, str) and not _unsendable(item) for item in keys):
        raise _bad(source, f"{key}.keys", "must be a list of names")
    if not isinstance(how.get("allow_opaque", False), bool):
        raise _bad(source, f"{key}.allow_opaque", "must be true or false")
    return Artifact(pattern, loads, tuple(keys), how.get("allow_opaque", False))


def _guess(pattern: str) -> str:
    name = pattern.rsplit("/", 1)[-1]
    suffix = "." + name.rsplit(".", 1)[-1].lower() if "." in name else ""
    return _SUFFIXES.get(suffix, "bytes")


def _env(value: Any, source: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _bad(source, "env", f"must map names to values, not {_kind(value)}")
    env = {}
    for name, content in value.items():
        if not isinstance(name, str) or not name.isascii() or not name.isidentifier():
            raise _bad(source, f"env.{name}", "is not the name of an environment variable")
        if name.startswith("LEASE_"):
            raise _bad(source, f"env.{name}", "names starting with LEASE_ are ours")
        if isinstance(content, bool) or not isinstance(content, str | int | float):
            raise _bad(source, f"env.{name}", f"must be text or a number, not {_kind(content)}; quote it")
        if _unsendable(str(content)):
            raise _bad(source, f"env.{name}", "holds a NUL or half a character, which no environment can carry")
        env[name] = str(content)
    return env


def _attempts(value: Any, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise _bad(source, "attempts", f"must be a whole number from 1 to 100, not {value!r}")
    return value


def _text(value: Mapping[str, Any], key: str, source: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not text.strip():
        raise _bad(source, key, f"must be a command line, not {_kind(text)}")
    if _unsendable(text):
        raise _bad(source, key, "holds a NUL or half a character")
    return text


def _unsendable(text: str) -> bool:
    """Tell whether text holds a NUL or a lone surrogate (YAML can spell one): neither travels."""
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _known_keys(value: Mapping[Any, Any], known: tuple[str, ...], source: str, prefix: str) -> None:
    for key in value:
        if key not in known:
            raise _bad(source, f"{prefix}{key}", "is not a key of a job", hint=_nearest(str(key), known))


def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def _bad(source: str, key: str, message: str, hint: str = "") -> UserError:
    where = f"{source}: {key}" if key else source
    return UserError("job.invalid", f"{where}: {message}", hint=hint or "see docs/job-file.md")
