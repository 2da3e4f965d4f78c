"""Find commands that a platform's profile forbids (`environment.never`) in a job's own commands. Pure.

A rule matches commands, not words: `echo shutdown` and `python shutdown_test.py` break none. Scripts that a command
starts are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leasehold.kit.text.redact import Redactor
from leasehold.kit.text.safe_text import one_line
from leasehold.model.job.cells import spell
from leasehold.model.job.job import Job
from leasehold.model.job.placeholders import PARAM
from leasehold.model.platform.profile import UNCONFIRMED, NeverRule, Profile
from leasehold.model.run.verdict import Finding, refuses

from .shell_reader import UNKNOWN, ShellReader, Words

_ON_THE_BOX = ("setup", "run", "evaluate")
_DEEPEST = 8
_SHOWN = 80
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_HARMLESS = ("--help", "--version", "--dry-run")
_VERSION = re.compile(r"(?<=[A-Za-z])[0-9.]+\Z")  # pip3.11 is pip
_STEM = re.compile(r"[=<>!~\[@;]")  # torch==2.1 is torch, --prefix=/x is --prefix
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_CONDAS = ("conda", "mamba", "micromamba")


@dataclass(frozen=True)
class _Hit:
    """A command of the job that breaks a rule, with its place in the job file."""

    key: str
    cell: str
    words: Words
    rule: NeverRule


@dataclass(frozen=True)
class _Wrapper:
    """A program that runs another one: its options that take a value, and its own arguments before the command."""

    valued: tuple[str, ...] = ()
    skip: int = 0
    long_valued: bool = False  # every --option without = takes one


_WRAPPERS = {
    "sudo": _Wrapper(("-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-D", "-R", "-U", "--user", "--group", "--host")),
    "doas": _Wrapper(("-u", "-C")),
    "env": _Wrapper(("-u", "--unset", "-C", "--chdir")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "exec": _Wrapper(("-a",)),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "time": _Wrapper(("-f", "-o")),
    "nice": _Wrapper(("-n", "--adjustment")),
    "ionice": _Wrapper(("-c", "-n", "--class", "--classdata")),
    "chrt": _Wrapper(skip=1),
    "taskset": _Wrapper(skip=1),
    "numactl": _Wrapper(("-m", "-N", "-C", "-p", "-i")),
    "timeout": _Wrapper(("-s", "--signal", "-k", "--kill-after"), skip=1),
    "stdbuf": _Wrapper(("-i", "-o", "-e")),
    "flock": _Wrapper(("-w", "--timeout", "-E"), skip=1),
    "xargs": _Wrapper(("-I", "-n", "-P", "-d", "-L", "-s", "-a", "-E")),
    "watch": _Wrapper(("-n", "--interval")),
    "systemd-run": _Wrapper(("-p", "-u", "-E", "-M", "-H"), long_valued=False),
    "srun": _Wrapper(
        ("-J", "-n", "-N", "-p", "-t", "-c", "-o", "-e", "-i", "-A", "-w", "-x", "-D", "-G", "-q", "-C"),
        long_valued=True,
    ),
}


def judge_commands(job: Job, profile: Profile) -> list[Finding]:
    """Refuse commands that the profile says must never be run there."""
    return _refusals(profile, _hits(job, profile, _ON_THE_BOX))


def command_warnings(job: Job, profile: Profile) -> list[str]:
    """Return the profile's advice against commands of the job."""
    return _warnings(profile, _hits(job, profile, _ON_THE_BOX))


def judge_smoke_command(job: Job, here: Profile) -> list[Finding]:
    """Apply the rules of this machine's profile to the smoke, which runs on this machine."""
    return _refusals(here, _hits(job, here, ("smoke",)))


def smoke_warnings(job: Job, here: Profile) -> list[str]:
    """Return the advice of this machine's profile against commands of the smoke."""
    return _warnings(here, _hits(job, here, ("smoke",)))


def _refusals(profile: Profile, hits: Iterable[_Hit]) -> list[Finding]:
    found = []
    for hit in hits:
        if hit.rule.outcome == "refuse":
            change = hit.rule.do or f"take it out of {hit.key}"
            hint = f"{change}; if the entry is wrong for your boxes, correct it in a profile of your own"
            found.append(refuses(_say(profile, hit), f"{hint} (docs/platforms-own.md)"))
    return found


def _warnings(profile: Profile, hits: Iterable[_Hit]) -> list[str]:
    found = [hit for hit in hits if hit.rule.outcome == "warn"]
    return [_say(profile, hit) + (f"; {hit.rule.do}" if hit.rule.do else "") for hit in found]


def _hits(job: Job, profile: Profile, keys: tuple[str, ...]) -> Iterator[_Hit]:
    rules = profile.environment.rules
    if not rules:
        return
    for key in keys:
        text, told = str(getattr(job, key)), set[str]()
        for cell, known in _variables(job, text):
            for words, rule in _broken(text, rules, known):
                if rule.name not in told:
                    yield _Hit(key, cell, words, rule)
                told.add(rule.name)


def _variables(job: Job, text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the known variables: the job's env and, for a text that names parameters, each cell's own."""
    env = dict(job.env)
    if PARAM not in text or not job.cells:
        yield "", env
        return
    seen: set[tuple[str, ...]] = set()
    for cell in job.cells:
        own = {PARAM + name: spell(value) for name, value in cell.params.items() if PARAM + name in text}
        if tuple(own.values()) not in seen:
            seen.add(tuple(own.values()))
            yield cell.name, {**env, **own}


def _broken(text: str, rules: tuple[NeverRule, ...], known: Mapping[str, str]) -> list[tuple[Words, NeverRule]]:
    found: dict[str, tuple[Words, NeverRule]] = {}
    for words in _commands(text, known, 0):
        for rule in rules:
            if rule.name not in found and _breaks(words, rule):
                found[rule.name] = (words, rule)
    return list(found.values())


def _say(profile: Profile, hit: _Hit) -> str:
    key, rule = hit.key + (f" of cell {hit.cell}" if hit.cell else ""), hit.rule
    shown = Redactor().clean(" ".join(hit.words).replace(UNKNOWN, "…").encode()).decode("utf-8", "replace")
    shown = one_line(shown)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
    doubt = f", {rule.source.confidence}" if rule.source.confidence in UNCONFIRMED else ""
    entry = f"environment.never[{rule.name}] of {profile.id}"
    return f"{key}: `{shown}` is against {entry}: {rule.why} ({rule.source.url}, {rule.source.verified}{doubt})"


def _breaks(words: Words, rule: NeverRule) -> bool:
    arguments = set(words[1:])
    if arguments & {*_HARMLESS, *rule.unless} or {_stem(word) for word in arguments} & set(rule.unless):
        return False
    return any(_matches(pattern.split(), words) for pattern in rule.commands)


def _matches(pattern: list[str], words: Words) -> bool:
    """Match the program's name, then its sub-command, then any further words among the arguments."""
    if not _names(words[0]) & set(pattern[0].split("|")):
        return False
    wanted, arguments = pattern[1:], list(words[1:])
    if wanted and not wanted[0].startswith("-"):
        at = next((at for at in _sub_commands(arguments) if _is_word(wanted[0], arguments[at])), None)
        if at is None:
            return False
        wanted, arguments = wanted[1:], arguments[at + 1 :]
    return all(any(_is_word(one, argument) for argument in arguments) for one in wanted)


def _names(word: str) -> set[str]:
    """Return the names of a program; a project file (./shutdown, tools/halt) is not the system's program."""
    if "/" in word and not word.startswith(("/", "~", UNKNOWN)):
        return {word}
    name = word.rpartition("/")[2]
    return {name, _VERSION.sub("", name)}


def _sub_commands(arguments: list[str]) -> Iterator[int]:
    """Yield where a sub-command may be: the first non-option word, or the next if that may be an option's value."""
    after_option = False
    for at, word in enumerate(arguments):
        if word.startswith("-"):
            after_option = "=" not in word
            continue
        yield at
        if not after_option:
            return
        after_option = False


def _is_word(pattern: str, word: str) -> bool:
    return bool({word, _stem(word)} & set(pattern.split("|")))


def _stem(word: str) -> str:
    return _STEM.split(word, 1)[0]


def _commands(text: str, known: Mapping[str, str], depth: int) -> Iterator[Words]:
    reader = ShellReader(text, known)
    for words in reader.read():
        yield from _unwrapped(words, reader.known, depth)


def _unwrapped(words: Words, known: Mapping[str, str], depth: int) -> Iterator[Words]:
    """Yield a command and those it starts: through sudo, env, bash -c, eval, trap, python -m and the like."""
    if not words:
        return
    yield words
    if depth >= _DEEPEST:
        return
    name, rest = words[0].rpartition("/")[2], words[1:]
    if script := _script(name, rest):
        yield from _commands(script, known, depth + 1)
    else:
        yield from _unwrapped(_started(name, rest), known, depth + 1)


def _script(name: str, rest: Words) -> str:
    """Return the shell text among a program's arguments."""
    if name in _SHELLS:
        return _after_c(rest)
    if name in ("su", "runuser"):
        at = next((at for at, word in enumerate(rest[:-1]) if word in ("-c", "--command")), None)
        return rest[at + 1] if at is not None else ""
    if name == "eval":
        return " ".join(rest)
    if name == "trap":
        return next((word for word in rest if not word.startswith("-")), "") if len(rest) > 1 else ""
    if name == "env" and "-S" in rest[:-1]:
        return " ".join(rest[rest.index("-S") + 1 :])
    return ""


def _after_c(rest: Words) -> str:
    """Return the text of `bash -lc TEXT`; a script file's arguments are not shell text."""
    told = False  # -c was seen: the first non-option word is the text
    at = 0
    while at < len(rest):
        word = rest[at]
        if not word.startswith(("-", "+")):
            return word if told else ""
        told = told or not word.startswith("--") and "c" in word
        at += 2 if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else 1
    return ""


def _started(name: str, rest: Words) -> Words:
    """Return the command that a program starts, as words."""
    if name in _WRAPPERS:
        if name == "command" and rest[:1] and rest[0] in ("-v", "-V"):
            return ()
        return _behind_options(rest, _WRAPPERS[name])
    if name in _CONDAS and rest[:1] == ("run",):
        return _behind_options(rest[1:], _Wrapper(("-n", "--name", "-p", "--prefix", "--cwd")))
    if _VERSION.sub("", name) == "python":
        return _module(rest)
    return ()


def _module(rest: Words) -> Words:
    """Return the words of a module run with -m: `python -m pip …` is `pip …`."""
    for at, word in enumerate(rest):
        if word == "-m":
            return rest[at + 1 :]
        if not word.startswith("-") or word == "-c":
            return ()
    return ()


def _behind_options(rest: Words, wrapper: _Wrapper) -> Words:
    at = 0
    while at < len(rest):
        word = rest[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            at += 2 if _takes_value(word, wrapper) else 1
        elif _ASSIGNMENT.match(word):
            at += 1
        else:
            break
    return rest[at + wrapper.skip :]


def _takes_value(word: str, wrapper: _Wrapper) -> bool:
    if word.startswith("--"):
        return word in wrapper.valued or wrapper.long_valued and "=" not in word
    if word[:2] in wrapper.valued:
        return len(word) == 2  # -n 5, or -n5
    return f"-{word[-1]}" in wrapper.valued and word[1:].isalpha()  # -nu root
