"""Read a job from parsed YAML; every error names the file, the line, the key and what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasehold.errors import UserError
from leasehold.kit.files.paths import UnsafePath, check_name, check_relative
from leasehold.kit.run.cell_health import STALL_AFTER_S
from leasehold.kit.run.editable_installs import EDITABLE_HINT, editable_installs
from leasehold.kit.tables.file_endings import guess_kind
from leasehold.kit.text.redact import Redactor
from leasehold.model.values.units import parse_duration, parse_size

from .job import Artifact, CheckpointFacts, GpuWish, Job
from .keys import (
    ARTIFACT_WORDS,
    AT_LIMIT,
    BUDGET_WORDS,
    CHECKPOINT_WORDS,
    GPU_WORDS,
    LOADERS,
    ON_NAN,
    ON_STALL,
    REBOOT,
    RESOURCE_WORDS,
    SETUP_FRAMEWORKS,
    STALL_WORDS,
    WHEN_DONE,
    WORDS,
    Word,
)
from .kubernetes_options import parse_kubernetes
from .latest_checkpoint import Latest
from .parse_cells import ReadFile, Roster, parse_cells
from .parse_data import parse_data
from .parse_downloads import parse_downloads
from .parse_notify import parse_notify
from .parse_publish import parse_publish
from .parse_refuge import read_refuge
from .parse_resume import parse_resume
from .placeholders import BadPlaceholder, fill, fill_plain
from .slurm_options import parse_slurm

_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MONEY = re.compile(r"\d+(?:\.\d+)?\s*[A-Za-z]{3}\Z")
_KEY_SHAPES = re.compile(r"(?:sk|hf|ghp|wandb)[-_][A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}|[0-9a-f]{40}\Z")
_FROM_OUT = "patterns are relative to $LEASE_OUT already: leave {{out}}/ away"
_T = TypeVar("_T")


def _no_file(name: str) -> Any:
    raise UserError(
        "job.invalid", f"cells.file: {name} cannot be read from here", hint="give the cells in the job file"
    )


@dataclass(frozen=True)
class Source:
    """The source of a job: the file, and the line of each key."""

    name: str
    lines: Mapping[str, int] = field(default_factory=dict)
    read_file: ReadFile = _no_file

    def bad(self, key: str, message: str, hint: str = "") -> UserError:
        """Build an error about one key."""
        line = self.lines.get(key)
        where = f"{self.name}:{line}" if line else self.name
        return UserError(
            "job.invalid", f"{where}: {key}: {message}" if key else f"{where}: {message}",
            hint=hint or "every key: docs/job-file.md",
        )  # fmt: skip


def parse_job(value: Any, source: Source | str) -> Job:
    """Check a whole job and return it."""
    source = Source(source) if isinstance(source, str) else source
    job = _mapping(value, "", WORDS, source)
    resources = _mapping(job.get("resources", {}), "resources", RESOURCE_WORDS, source)
    budget, at_limit = _budget(job, source)
    roster = parse_cells(job["cells"], source.read_file, source.bad) if "cells" in job else Roster()
    params = {key for cell in roster.cells for key in cell.params}
    stall_after_s, on_stall = _stall(job.get("stall", {}), source)
    latest = parse_resume(job, params, source.bad)
    return Job(
        name=_name(job, source),
        run=_command(job, "run", source, params, latest),
        artifacts=_artifacts(job.get("artifacts"), source),
        setup=_setup(job, source),
        setup_frameworks=_one_of(job.get("setup_frameworks", "keep"), "setup_frameworks", SETUP_FRAMEWORKS, source),
        smoke=_optional(job, "smoke", source, params, latest),
        evaluate=_optional(job, "evaluate", source, params, latest),
        latest=tuple(latest.patterns),  # after the commands that ask for them
        env=_env(job.get("env", {}), source),
        secrets=_secrets(job.get("secrets", []), source),
        gpu=_gpu(resources["gpu"], source) if "gpu" in resources else None,
        disk_bytes=int(_read(resources, "resources", "disk", parse_size, 0, source)),
        candidates=_texts(job.get("candidates", []), "candidates", source),
        scratch=_paths(job.get("scratch", []), "scratch", source),
        checkpoint=_checkpoint(job.get("checkpoint", {}), source),
        progress=_progress(job.get("progress", "auto"), source),
        expect_s=_read(job, "", "expect", parse_duration, 0.0, source),
        budget=budget,
        at_limit=at_limit,
        stall_after_s=stall_after_s,
        on_stall=on_stall,
        on_nan=_one_of(job.get("on_nan", "tell"), "on_nan", ON_NAN, source),
        reboot=_one_of(job.get("reboot", "nothing"), "reboot", REBOOT, source),
        publish=parse_publish(job, source.bad),
        when_done=_one_of(job.get("when_done", "ask"), "when_done", WHEN_DONE, source),
        downloads=parse_downloads(job.get("downloads", []), source.bad),
        data=parse_data(job.get("data", []), source.bad),
        notify=parse_notify(job.get("notify"), source.bad),
        attempts=_count(job.get("attempts", 3), "attempts", 100, source),
        cells=roster.cells,
        at_once=roster.at_once,
        kubernetes=parse_kubernetes(job.get("kubernetes", {}), source.bad),
        slurm=parse_slurm(job.get("slurm", {}), source.bad),
    )


def _mapping(value: Any, key: str, words: tuple[Word, ...], source: Source) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise source.bad(key, f"must be a mapping of keys, not {_kind(value)}")
    names = tuple(word.name for word in words)
    for found in value:
        if found not in names:
            where = f"{key}.{found}" if key else str(found)
            raise source.bad(where, "is not a key here", _nearest(str(found), names))
    return value


def _name(job: Mapping[str, Any], source: Source) -> str:
    try:
        return check_name(job.get("name"), "name")
    except UnsafePath as error:
        raise source.bad("name", str(error).partition(": ")[2] or str(error)) from None


def _text(job: Mapping[str, Any], key: str, source: Source) -> str:
    text = job.get(key)
    if not isinstance(text, str) or not text.strip():
        raise source.bad(key, f"must be a command line, not {_kind(text)}")
    if _unsendable(text):
        raise source.bad(key, "holds a NUL or half a character")
    if Redactor().spans(text.encode("utf-8")):
        hint = "list its name under secrets: and write $NAME in the command; the value comes from your environment"
        raise source.bad(key, "holds what looks like a secret, and commands are stored and seen by every process", hint)
    return text


def _optional(
    job: Mapping[str, Any], key: str, source: Source, params: Collection[str] = (), latest: Latest | None = None
) -> str:
    return _command(job, key, source, params, latest) if key in job else ""


def _command(
    job: Mapping[str, Any], key: str, source: Source, params: Collection[str] = (), latest: Latest | None = None
) -> str:
    try:
        return fill(_text(job, key, source), params, latest)
    except BadPlaceholder as error:
        raise source.bad(key, str(error), error.hint) from None


def _setup(job: Mapping[str, Any], source: Source) -> str:
    setup = _optional(job, "setup", source)
    for line in editable_installs(setup):
        raise source.bad("setup", f"`{line}` is editable: later runs would import this run's code", EDITABLE_HINT)
    return setup


def _no_shell(text: str, key: str, hint: str, source: Source) -> str:
    """Refuse placeholders in text that no shell reads: they would stay unfilled, and fail hours later."""
    try:
        return fill_plain(text, hint)
    except BadPlaceholder as error:
        raise source.bad(key, str(error), error.hint) from None


def _texts(value: Any, key: str, source: Source) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(item, str) and item and not _unsendable(item) for item in value
    ):
        raise source.bad(key, f"must be a list of words, not {_kind(value)}", f"write {key}: [one, two]")
    return tuple(value)


def _paths(value: Any, key: str, source: Source) -> tuple[str, ...]:
    for path in _texts(value, key, source):
        _no_shell(path, key, _FROM_OUT, source)
        try:
            check_relative(path)
        except UnsafePath as error:
            raise source.bad(key, f"{error}; patterns are relative to $LEASE_OUT") from None
    return tuple(value)


def _secrets(value: Any, source: Source) -> tuple[str, ...]:
    for name in _texts(value, "secrets", source):
        if not _SECRET_NAME.match(name) or _KEY_SHAPES.search(name):
            raise source.bad(
                "secrets", "lists names of environment variables, never values", "secrets: [WANDB_API_KEY]"
            )
    return tuple(value)


def _env(value: Any, source: Source) -> dict[str, str]:
    if not isinstance(value, dict):
        raise source.bad("env", f"must map names to values, not {_kind(value)}")
    env = {}
    for name, content in value.items():
        key = f"env.{name}"
        if not isinstance(name, str) or not _SECRET_NAME.match(name):
            raise source.bad(key, "is not the name of an environment variable")
        if name.startswith("LEASE_"):
            raise source.bad(key, "names starting with LEASE_ are ours")
        if isinstance(content, bool) or not isinstance(content, str | int | float):
            raise source.bad(key, f"must be text or a number, not {_kind(content)}", "quote it")
        if _unsendable(str(content)):
            raise source.bad(key, "holds a NUL or half a character, which no environment can carry")
        if _KEY_SHAPES.search(str(content)):
            raise source.bad(key, "looks like a secret, and env is stored", f"write secrets: [{name}] instead")
        env[name] = _no_shell(str(content), key, f"set it in the command: {name}={content} python …", source)
    return env


def _artifacts(value: Any, source: Source) -> tuple[Artifact, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = dict.fromkeys(value)
    if not isinstance(value, dict) or not value:
        hint = "for example:  artifacts: {metrics.json: json, best.pt: torch}"
        raise source.bad("artifacts", "is missing or empty: it lists what must come home", hint)
    return tuple(_artifact(pattern, how, source) for pattern, how in value.items())


def _artifact(pattern: Any, how: Any, source: Source) -> Artifact:
    key = f"artifacts.{pattern}"
    _no_shell(str(pattern), key, _FROM_OUT, source)
    try:
        check_relative(pattern)
    except UnsafePath as error:
        raise source.bad(key, f"{error}; artifacts are relative to $LEASE_OUT") from None
    how = {"loads": how} if how is None or isinstance(how, str) else how
    facts = _mapping(how, key, ARTIFACT_WORDS, source)
    loads = _one_of(facts.get("loads") or guess_kind(pattern), key, LOADERS, source)
    opaque = facts.get("allow_opaque", False)
    if not isinstance(opaque, bool):
        raise source.bad(f"{key}.allow_opaque", "must be true or false")
    must_be_read = facts.get("must_be_read", False)
    if not isinstance(must_be_read, bool):
        raise source.bad(f"{key}.must_be_read", "must be true or false")
    if must_be_read and loads == "bytes":
        raise source.bad(
            f"{key}.must_be_read",
            "no reader would read it: it comes home hash-equal and is not looked into",
            f"name its reader by `loads`: {', '.join(LOADERS[:-1])}; or leave must_be_read away",
        )
    memory = int(_read(facts, key, "read_memory", parse_size, 0, source))
    read_s = _read(facts, key, "read_time", parse_duration, 0.0, source)
    return Artifact(pattern, loads, _texts(facts.get("keys", []), f"{key}.keys", source), opaque, memory, read_s)


def _gpu(value: Any, source: Source) -> GpuWish:
    facts = _mapping(value, "resources.gpu", GPU_WORDS, source)
    name = facts.get("name", "")
    if not isinstance(name, str) or _unsendable(name):
        raise source.bad("resources.gpu.name", f"must be text, not {_kind(name)}")
    least, most = _read(facts, "resources.gpu", "memory", parse_memory, (0, 0), source)
    return GpuWish(name, _count(facts.get("count", 1), "resources.gpu.count", 64, source), least, most)


def parse_memory(text: str) -> tuple[int, int]:
    """Read 40GB+, 24GB-48GB or 80GB as least and most; 0 is no bound. A plain size allows 10 % either way."""
    if text.strip().endswith("+"):
        return parse_size(text.strip()[:-1]), 0
    if "-" in text:
        least, most = (parse_size(part) for part in text.split("-", 1))
        if most < least:
            raise ValueError(f"{text!r} ends below its beginning; write it like 24GB-48GB")
        return least, most
    size = parse_size(text)
    return int(size * 0.9), int(size * 1.1)


def _checkpoint(value: Any, source: Source) -> CheckpointFacts:
    facts = _mapping(value, "checkpoint", CHECKPOINT_WORDS, source)
    path = facts.get("path", "")
    if path:
        _paths([path], "checkpoint.path", source)
    size = int(_read(facts, "checkpoint", "size", parse_size, 0, source))
    write_s, step_s = (
        _read(facts, "checkpoint", key, parse_duration, 0.0, source) for key in ("write_time", "step_time")
    )
    every_s = _read(facts, "checkpoint", "every", parse_duration, 0.0, source)
    rate = int(_read(facts, "checkpoint", "rate", parse_size, 0, source))
    known = CheckpointFacts(path, size, write_s, step_s, every_s=every_s, rate_bytes=rate)
    return read_refuge(facts, known, source.bad)


def _progress(value: Any, source: Source) -> str:
    if not isinstance(value, str) or not value or _unsendable(value):
        raise source.bad("progress", f"must be auto, none or a regex, not {_kind(value)}")
    if value in ("auto", "none"):
        return value
    try:
        groups = re.compile(value).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        raise source.bad("progress", f"is not a regex: {error}") from None
    if "step" not in groups:
        raise source.bad("progress", "has no group named step", r"for example: 'it (?P<step>\d+)/(?P<total>\d+)'")
    return value


def _budget(job: Mapping[str, Any], source: Source) -> tuple[str, str]:
    """Read an amount, which only warns, or {limit, at_limit}."""
    value = job.get("budget")
    if not isinstance(value, dict):
        return _read(job, "", "budget", _money, "", source), "warn"
    facts = _mapping(value, "budget", BUDGET_WORDS, source)
    if "limit" not in facts:
        raise source.bad("budget", "has no limit, which says what it may cost", "budget: {limit: 20USD}")
    limit = _read(facts, "budget", "limit", _money, "", source)
    return limit, _one_of(facts.get("at_limit", "warn"), "budget.at_limit", AT_LIMIT, source)


def _stall(value: Any, source: Source) -> tuple[float, str]:
    """Read a duration, off, or {after, then}."""
    facts = _mapping(value if isinstance(value, dict) else {"after": value}, "stall", STALL_WORDS, source)
    if facts.get("after") in ("off", False):  # YAML reads a bare off as false
        facts = {**facts, "after": "0s"}
    after_s = _read(facts, "stall", "after", parse_duration, STALL_AFTER_S, source)
    return after_s, _one_of(facts.get("then", "tell"), "stall.then", ON_STALL, source)


def _money(text: str) -> str:
    if not _MONEY.match(text.strip()):
        raise ValueError(f"{text!r} is not an amount; write it like 20USD or 150CNY")
    return text.strip()


def _read(
    facts: Mapping[str, Any], prefix: str, key: str, parse: Callable[[str], _T], default: _T, source: Source
) -> _T:
    if key not in facts:
        return default
    where = f"{prefix}.{key}" if prefix else key
    value = facts[key]
    if not isinstance(value, str):
        raise source.bad(where, f"needs its unit, as text; seen {_kind(value)}")
    try:
        return parse(value)
    except ValueError as error:
        raise source.bad(where, str(error)) from None


def _one_of(value: Any, key: str, known: tuple[str, ...], source: Source) -> str:
    if value not in known:
        raise source.bad(key, f"{value!r} is none of {', '.join(known)}", _nearest(str(value), known))
    return str(value)


def _count(value: Any, key: str, most: int, source: Source) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise source.bad(key, f"must be a whole number from 1 to {most}, not {value!r}")
    return value


def _unsendable(text: str) -> bool:
    """Return whether text holds a NUL or a lone surrogate (possible in YAML): neither can be sent."""
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
