"""Minimal shell parsing: words with their quotes, lines joined over backslashes, and bash-only syntax."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+""", re.S)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.S)
_OPENERS = re.compile(r"(?:^|[;&|]|\b(?:then|do|else)\s)\s*(?:if|for|while|until|case|select)\b|\{\s*(?:#.*)?$")
_CLOSERS = re.compile(r"(?:^|[;&|])\s*(?:fi|done|esac|\})(?=\s|[;&|)]|$)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_BASH_ONLY = (
    (re.compile(r"\[\["), "[["),
    (re.compile(r"(?:^|[\s;&|])source\s"), "source"),
    (re.compile(r"\bset\s+-[a-z]*o\s+pipefail|\bset\s+-[a-z]*o\s*pipefail"), "pipefail"),
    (re.compile(r"[<>]\("), "process substitution"),
    (re.compile(r"^\s*(?:declare|typeset|mapfile|readarray|shopt|pushd|popd)\b"), "a bash builtin"),
    (re.compile(r"^\s*function\s+\w+"), "function"),
    (re.compile(r"^\s*\w+\+?=\("), "an array"),
    (re.compile(r"\$\{[^}]*(?:\[[@*\d]|\^|,,|//|:\d)"), "a bash expansion"),
    (re.compile(r"(?<!\$)\(\("), "(("),
    (re.compile(r"&>|\|&|<<<"), "a bash redirection"),
    (re.compile(r"(?:^|\s)[\w./-]*\{\w+(?:,\w+)+\}|\{\d+\.\.\d+\}"), "brace expansion"),
)


@dataclass(frozen=True)
class Line:
    """A logical line of a script: its text, its first line number, and whether it is outside every block."""

    text: str
    number: int
    top: bool


def logical_lines(script: str, first: int = 1) -> Iterator[Line]:
    """Yield lines joined over trailing backslashes; those inside if, for, functions and here-documents are not top."""
    lines = script.split("\n")
    at, depth, until = 0, 0, ""
    while at < len(lines):
        start, text = at, lines[at]
        while not until and text.endswith("\\") and at + 1 < len(lines):
            at += 1
            text += "\n" + lines[at]
        at += 1
        if until:
            until = "" if text.strip() == until else until
            yield Line(text, first + start, False)
            continue
        opened, closed = _blocks(text)
        yield Line(text, first + start, depth == 0 and not opened)
        depth = max(0, depth + opened - closed)
        heredoc = _HEREDOC.search(text)
        until = heredoc[2] if heredoc else ""


def words(text: str) -> list[str]:
    """Split a line into words that keep their quotes."""
    return [found.group() for found in _WORD.finditer(text)]


def word_spans(text: str) -> list[tuple[str, int]]:
    """Split a line into words with the start of each; a backslash at a line's end is not a word."""
    return [(found.group(), found.start()) for found in _WORD.finditer(text) if found.group() != "\\\n"]


def first_word(text: str) -> str:
    """Return the first word of a line as the shell would see it."""
    found = _WORD.search(text)
    return (unquoted(found.group()) or found.group()) if found else ""


def unquoted(word: str) -> str | None:
    """Return the value of a word, or None when only a shell could compute it."""
    if re.search(r"[$`]|(?<!\\)[*?~]", re.sub(r"'[^']*'", "", word)):
        return None
    try:
        parts = shlex.split(word)
    except ValueError:
        return None
    return parts[0] if len(parts) == 1 else "" if not parts else None


def assignment(word: str) -> tuple[str, str | None] | None:
    """Split NAME=value; the value is None when only a shell could compute it."""
    found = _ASSIGNMENT.match(word)
    return (found[1], unquoted(found[2]) if found[2] else "") if found else None


def bash_only(script: str) -> tuple[int, str] | None:
    """Return the first line, counted from 0, with syntax that plain sh does not understand, and that syntax."""
    for number, line in enumerate(script.split("\n")):
        bare = re.sub(r"(?:^|\s)#.*", "", line)
        for pattern, name in _BASH_ONLY:
            if pattern.search(bare):
                return number, name
    return None


def _blocks(text: str) -> tuple[int, int]:
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|(?:^|\s)#.*", " ", text)
    functions = len(re.findall(r"\w+\s*\(\)\s*\{", bare))
    opened = functions or len(_OPENERS.findall(bare))
    return opened, len(_CLOSERS.findall(bare))
