"""`{{out}}` and the other placeholders in a job's commands: each becomes a shell reference, quoted for its position.

They become references and not values, so a command means the same on every home and box, and so does the run's name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from .latest_checkpoint import BadPattern, Latest, only_when_found, word

NAMES = {"out": "LEASE_OUT", "run": "LEASE_RUN", "cell": "LEASE_CELL", "attempt": "LEASE_ATTEMPT"}
PARAM = "LEASE_PARAM_"
LATEST, RESUME = "latest", "resume"
_SHAPE = re.compile(
    r"\{\{\{\{(?P<plain>\s*(?:latest\s*:[^{}\n]*|[A-Za-z_]\w*\s*))\}\}\}\}"
    r"|\{\{\s*(?:latest\s*:\s*(?P<pattern>[^{}\n]*?)|(?P<name>[A-Za-z_]\w*))\s*\}\}"
)
_HEREDOC = re.compile(r"<<-?[ \t]*(?P<end>(?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|()<>'\"\\])+)")
_STARTS_A_WORD = " \t\n;&|("


class BadPlaceholder(Exception):
    """A placeholder that cannot be filled: what is wrong, and what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class _Found(NamedTuple):
    match: re.Match[str]
    place: str  # word, quoted, single, tick, comment


def fill(command: str, params: Collection[str] = (), latest: Latest | None = None) -> str:
    """Turn the placeholders of a shell command into references; text without any is returned unchanged.

    A sweep's parameters are placeholders too. `latest` collects the checkpoints that the command refers to.
    """
    if not _SHAPE.search(command):
        return command
    names = {**NAMES, **{name: PARAM + name for name in params}}
    parts, done = [], 0
    for match, place in _Reader(command).found():
        own = None if latest is None or match["name"] in names else _checkpoint(command, match, place, latest)
        parts += [command[done : match.start()], _reference(command, match, place, names) if own is None else own]
        done = match.end()
    return "".join([*parts, command[done:]])


def fill_plain(text: str, hint: str) -> str:
    """Refuse a placeholder in text that no shell reads; other braces stay unchanged."""
    for match in _SHAPE.finditer(text):
        if match["name"] in NAMES or match["pattern"] is not None:
            raise BadPlaceholder(f"{match[0]} is only filled in run, smoke and setup", hint)
    return _SHAPE.sub(lambda match: _doubled(match) if _doubled(match)[2:-2].strip() in NAMES else match[0], text)


def asks_to_resume(command: str) -> bool:
    """Return whether a command contains {{resume}} anywhere."""
    return any(match["name"] == RESUME for match in _SHAPE.finditer(command))


def escape(command: str) -> str:
    """Escape a command so that fill returns exactly it."""
    return _SHAPE.sub(lambda match: "{{" + match[0] + "}}", command)


def _doubled(match: re.Match[str]) -> str:
    return match[0] if match["plain"] is None else "{{" + match["plain"] + "}}"


def _checkpoint(command: str, match: re.Match[str], place: str, latest: Latest) -> str | None:
    """Refer to a checkpoint: {{latest: PATTERN}}, {{latest}} for the pattern of `resume:`, and its {{resume}}."""
    name, pattern = match["name"], match["pattern"]
    if (pattern is None and name not in (LATEST, RESUME)) or place == "comment":
        return None
    if name is not None and not latest.patterns:
        hint = "for example  resume: {when: ckpt-*, flags: '--resume {{latest}}'}, or write {{latest: ckpt-*}}"
        raise BadPlaceholder(f"{match[0]} has no `resume:` that says what it is", hint)
    if place in ("single", "tick") or (name == RESUME and place != "word"):
        raise BadPlaceholder(f"{match[0]} is inside quotes", "write it outside of them; its own quotes are put for you")
    if name == RESUME:
        if not latest.flags:
            raise BadPlaceholder("{{resume}} is used in its own flags", "write {{latest}} there, for the path")
        return only_when_found(latest.flags)
    try:
        variable = latest.variable(pattern if pattern is not None else latest.patterns[0])
    except BadPattern as error:
        raise BadPlaceholder(f"{match[0]}: {error}", "for example {{latest: checkpoint-*}}") from None
    alone = place == "word" and _stands_alone(command, match)
    return word(variable) if alone else f"${{{variable}}}" if place == "quoted" else f'"${{{variable}}}"'


def _stands_alone(command: str, match: re.Match[str]) -> bool:
    """Return whether a placeholder is a whole word: only then it may be dropped."""
    around = command[match.start() - 1 : match.start()] + command[match.end() : match.end() + 1]
    return all(char in " \t\n;&|()" for char in around)


def _reference(command: str, match: re.Match[str], place: str, names: Mapping[str, str]) -> str:
    if place == "comment":
        return match[0]
    if match["plain"] is not None:
        return _doubled(match)
    variable = names.get(match["name"])
    line = command.count("\n", 0, match.start()) + 1
    where = f"{match[0]} (its line {line})" if "\n" in command.strip() else match[0]
    if variable is None:
        close = difflib.get_close_matches(match["name"], names, 1)
        known = f"did you mean {{{{{close[0]}}}}}?" if close else f"known: {', '.join(names)};"
        raise BadPlaceholder(
            f"{where} is not a placeholder", f"{known} to mean the braces themselves: {escape(match[0])}"
        )
    if command[: match.start()].endswith("$"):
        raise BadPlaceholder(f"{where} has a $ before it", f"write {{{{{match['name']}}}}} alone, or ${variable}")
    if place == "single":
        hint = f"the shell fills in nothing there: use double quotes, or read {variable} from the environment"
        raise BadPlaceholder(f"{where} is inside single quotes", hint)
    if place == "tick":
        raise BadPlaceholder(f"{where} is inside `backticks`", "write $( … ) instead of backticks")
    return f'"${{{variable}}}"' if place == "word" else f"${{{variable}}}"


class _Reader:
    """Parses a command as sh would, far enough to know which quotes surround a position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._inside: list[str] = []  # of: ' " ` $( ${ $(( (
        self._heredocs: list[str] = []
        self._found: list[_Found] = []

    def found(self) -> list[_Found]:
        """List the placeholders with their quoting; in a command with unclosed quotes none is certain."""
        while self._at < len(self._text):
            match = _SHAPE.match(self._text, self._at)
            if match:
                self._found.append(_Found(match, self._place()))
                self._at = match.end()
            else:
                self._step()
        if self._inside:
            what = {"'": "a single quote", '"': "a double quote", "`": "a backtick"}.get(self._inside[-1], "a bracket")
            raise BadPlaceholder(f"has {what} that does not close", "so it is not sure how to quote its placeholders")
        return self._found

    def _place(self) -> str:
        if "`" in self._inside:
            return "tick"
        for context in reversed(self._inside):
            if context == "'":
                return "single"
            if context in ('"', "$(("):
                return "quoted"
            if context == "$(":
                return "word"
        return "word"  # parentheses alone quote nothing

    def _step(self) -> None:
        char, top = self._text[self._at], self._inside[-1] if self._inside else ""
        if top == "'":
            self._at += 1
            if char == "'":
                self._inside.pop()
        elif char == "\\":
            self._at += 2
        elif char == "$" and self._opens():
            return
        elif char in "\"'`":
            self._quote(char, top)
        elif self._place() == "word" and top != "${":
            self._word(char, top)
        else:
            self._bracket(char, top)

    def _opens(self) -> bool:
        for opening in ("$((", "$(", "${"):
            if self._text.startswith(opening, self._at) and not _SHAPE.match(self._text, self._at + 1):
                self._inside.append(opening)
                self._at += len(opening)
                return True
        return False

    def _quote(self, char: str, top: str) -> None:
        self._at += 1
        if char == top:
            self._inside.pop()
        elif char != "'" or self._place() in ("word", "tick"):
            self._inside.append(char)

    def _word(self, char: str, top: str) -> None:
        if char == "#" and (self._at == 0 or self._text[self._at - 1] in _STARTS_A_WORD):
            self._skip_to(self._text.find("\n", self._at), "comment")
            return
        heredoc = _HEREDOC.match(self._text, self._at) if char == "<" else None
        if heredoc and not self._text.startswith("<<<", self._at):
            self._heredocs.append(heredoc["end"])
            self._at = heredoc.end()
        elif char == "<":
            self._at += len(self._text[self._at :]) - len(self._text[self._at :].lstrip("<"))
        elif char == "\n" and self._heredocs:
            self._at += 1
            self._bodies()
        else:
            self._bracket(char, top)

    def _bracket(self, char: str, top: str) -> None:
        self._at += 1
        if char == "(" and top in ("$(", "$((", "("):
            self._inside.append("(")
        elif (char == ")" and top in ("$(", "(")) or (char == "}" and top == "${"):
            self._inside.pop()
        elif top == "$((" and self._text.startswith("))", self._at - 1):
            self._inside.pop()
            self._at += 1

    def _bodies(self) -> None:
        for mark in self._heredocs:
            end = re.sub(r"['\"\\]", "", mark)
            last = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self._text, self._at)
            self._skip_to(last.end() if last else -1, "quoted" if end == mark else "single")
        self._heredocs.clear()

    def _skip_to(self, end: int, place: str) -> None:
        end = len(self._text) if end < 0 else end
        self._found += [_Found(match, place) for match in _SHAPE.finditer(self._text, self._at, end)]
        self._at = end
