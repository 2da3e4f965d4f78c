"""A script carried over from another tool: it is adapted to sh, and each line keeps its source line number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from leasehold.lifecycle.init.options.flag_roles import role_of
from leasehold.lifecycle.init.text.project_facts import Role
from leasehold.lifecycle.init.text.secret_names import is_secret, name_for
from leasehold.lifecycle.init.text.shell_words import Line, bash_only, logical_lines, unquoted

from .report import Report

_INSTALLS = re.compile(
    r"(?:sudo\s+)?(?:pip3?|python3?\s+-m\s+pip|uv\s+pip|apt-get|apt|conda|mamba|uv)\s+(?:-y\s+|-q+\s+)*"
    r"(?:install|uninstall|update|upgrade|sync)\b"
)
_LAUNCHES = re.compile(r"\b(?:python[0-9.]*|torchrun|accelerate|deepspeed|uv\s+run)\s")
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"'`&|;()<>]+)"""
_OUTPUT_FLAG = re.compile(rf"(?<!\S)(?P<flag>--[A-Za-z][\w.-]*)(?P<gap>=|[ \t]+)(?P<value>{_VALUE})")
_CREDENTIAL = re.compile(
    rf"(?<![\w$-])(?P<name>--[A-Za-z][\w-]*(?=[=\s])|[A-Za-z_]\w*(?==))(?P<gap>=|[ \t]+)(?P<value>{_VALUE})"
)
_FAR = re.compile(
    r"""(?:^|(?<=\s)|(?<==)|(?<=[\s=]["']))(?:/(?!dev/|bin/|usr/|tmp/|etc/)[\w.-]+(?:/[\w.-]+)*|~/[\w./-]+)""", re.M
)
_SOURCE = re.compile(r"(^|[;&|]\s*)source(?=\s)", re.M)
_ACTIVATE = re.compile(r"^(?P<pad>[ \t]*)(?P<line>(?:conda|mamba)\s+(?:de)?activate\b.*)$", re.M)
_CONDA_SH = '. "$(conda info --base)/etc/profile.d/conda.sh"'
_MAX_FAR = 12


@dataclass(frozen=True)
class Script:
    """Shell text, with the source line number of each of its lines."""

    text: str = ""
    numbers: tuple[int, ...] = ()

    @classmethod
    def starting(cls, text: str, first: int) -> Script:
        """Number a text whose lines are consecutive in the source."""
        return cls(text, tuple(range(first, first + text.count("\n") + 1)))

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def line_at(self, offset: int) -> int:
        """Return the source line of a position in the text."""
        row = self.text.count("\n", 0, offset)
        return self.numbers[row] if row < len(self.numbers) else 0

    def logical(self) -> Iterator[Line]:
        """Yield logical lines with their source lines."""
        for line in logical_lines(self.text, 0):
            yield replace(line, number=self.numbers[line.number])


def join_scripts(parts: list[Script]) -> Script:
    """Concatenate scripts."""
    return Script("\n".join(part.text for part in parts), tuple(number for part in parts for number in part.numbers))


def take_out_secrets(script: Script, report: Report) -> Script:
    """Remove credentials: assignments and options with such names, and texts that look like keys."""

    def replaced(found: re.Match[str]) -> str:
        option = found["name"].startswith("--")
        name = found["name"].lstrip("-").replace("-", "_")
        value = unquoted(found["value"])
        if not value or not is_secret(name, value) or "\n" in value:
            return found.group()
        wanted = name_for(value, script.text[: found.start()]) if option else name
        known = report.name_secret(value, name.upper() if wanted == "SECRET_FROM_COMMAND" else wanted)
        report.did(script.line_at(found.start()), f"a credential in the script -> secrets {known}")
        return f'{found["name"]}{found["gap"]}"${{{known}}}"'

    hidden = replace(script, text=report.hide(_CREDENTIAL.sub(replaced, script.text)).replace("\0", ""))
    for name in report.secrets:
        for found in re.finditer(rf"'[^'\n]*\$\{{{name}\}}[^'\n]*'", hidden.text):
            line = hidden.line_at(found.start())
            report.left(line, f"${name} in single quotes", "the shell does not expand it there; use double quotes")
    return hidden


def split_installs(script: Script) -> tuple[Script, Script]:
    """Split off leading lines that only install: they need not run again after a kill."""
    rows = 0
    installs = False
    for line in script.logical():
        text = line.text.strip()
        install = line.top and bool(_INSTALLS.match(text))
        if text and not text.startswith("#") and not install:
            break
        installs = installs or install
        rows += line.text.count("\n") + 1
    if not installs:
        return Script(), script
    lines = script.text.split("\n")
    first = Script("\n".join(lines[:rows]), script.numbers[:rows])
    return first, Script("\n".join(lines[rows:]), script.numbers[rows:])


def point_outputs_home(script: Script, report: Report) -> Script:
    """Set flags that name an output folder to $LEASE_OUT, unless the folder is also mentioned elsewhere."""
    lines: list[str] = []
    seen: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        flag, bare = found["flag"], found["value"].strip("\"'")
        file = re.search(r"[^/]\.[A-Za-z]\w*\Z", bare)
        if role_of(flag) is not Role.OUTPUT or file or "LEASE_OUT" in bare or _times_named(bare, script.text) > 1:
            return found.group()
        inside = f"/{flag.lstrip('-')}" if seen else ""
        seen.append(flag)
        place = sum(len(line) + 1 for line in lines) + found.start()
        report.did(script.line_at(place), f'{flag} {bare} -> "$LEASE_OUT{inside}", which comes home')
        return f'{flag}{found["gap"]}"$LEASE_OUT{inside}"'

    written = []
    for line in script.logical():
        written.append(_OUTPUT_FLAG.sub(replaced, line.text) if _LAUNCHES.search(line.text) else line.text)
        lines.append(line.text)
    return replace(script, text="\n".join(written))


def _times_named(path: str, text: str) -> int:
    return len(re.findall(rf"(?<![\w./-]){re.escape(path)}(?![\w-])", text))


def note_far_paths(script: Script, report: Report) -> None:
    """List absolute paths that a fresh box will not have."""
    seen: set[str] = set()
    for found in _FAR.finditer(re.sub(r"(?m)^\s*#.*$", lambda line: " " * len(line.group()), script.text)):
        if found.group() not in seen and len(seen) < _MAX_FAR:
            seen.add(found.group())
            report.left(script.line_at(found.start()), found.group(), "kept, but a fresh box does not have it")


def with_conda(script: Script, report: Report, made: bool) -> Script:
    """Make `conda activate` work in sh, which has read no profile."""
    found = _ACTIVATE.search(script.text)
    if not found:
        return script
    if not made and "deactivate" not in found["line"]:
        report.left(
            script.line_at(found.start("line")), found["line"], "kept, but the box must have it; make it in `setup`"
        )
    if "conda.sh" in script.text or "hook)" in script.text:
        return script
    start = f"{found['pad']}{_CONDA_SH} && {found['line']}"
    return replace(script, text=script.text[: found.start()] + start + script.text[found.end() :])


def for_sh(script: Script, variables: Mapping[str, str], report: Report, what: str) -> str:
    """Make the final text: `.` for source, the tool's variables set at the top, bash called where it is needed."""
    text = _SOURCE.sub(r"\1.", script.text)
    needs = bash_only(text)
    lines = [f"{name}={value}" for name, value in variables.items()]
    body = "\n".join([*lines, re.sub(r"\n{3,}", "\n\n", text.strip("\n"))])
    if needs is None:
        return body
    row, name = needs
    report.did(script.numbers[row], f"{what} is put into bash -c: it uses {name}, which sh does not have")
    quoted = shlex.quote(f"\n{body}\n")
    return f"bash -c {quoted}"


def tool_variables(script: Script, known: Mapping[str, str], prefix: str, report: Report) -> dict[str, str]:
    """Choose the tool's own variables that the script reads, and list those that have no meaning here."""
    chosen: dict[str, str] = {}
    missing: set[str] = set()
    for found in re.finditer(rf"(?<![\w#])\$?\{{?(?P<name>{prefix}_[A-Z][A-Z_]*[A-Z])\b", script.text):
        name, line = found["name"], script.line_at(found.start())
        if name in chosen or name in missing or re.search(rf"(?m)^\s*(?:export\s+)?{name}=", script.text):
            continue
        if name in known:
            chosen[name] = known[name]
            report.did(line, f"{name} is set to {known[name]} at the top")
        else:
            missing.add(name)
            report.left(line, name, "kept, but nothing sets it here")
    return chosen
