"""Read the installs in a set-up's shell text, and redirect their -r and -c files."""

from __future__ import annotations

import os
import re
import shlex
from typing import Callable, List, NamedTuple, Optional, Tuple

_PIECE = re.compile(
    r"(?P<comment>(?<!\S)\#[^\n]*)"
    r"|(?P<op>&&|\|\||[;\n|&()])"
    r"""|(?P<word>(?:[^\s"'\\;|&()]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)"""
    r"""|(?P<stray>["'\\])""",
    re.DOTALL,
)
_PIP = re.compile(r"pip[0-9.]*\Z")
_FILE_OPTIONS = ("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints")
_MADE_BY_THE_SHELL = re.compile(r"[$`*?~]")

Substitute = Callable[[str, bool], str]  # a file's path, whether it is a constraint -> the path to use


class _Word(NamedTuple):
    text: str  # as the program receives it
    start: int
    end: int
    fixed: bool  # no part of it is expanded by the shell at run time


def point_elsewhere(setup: str, folder: str, substitute: Substitute) -> str:
    """Return the set-up with each file that a `pip install` reads replaced by the result of `substitute`."""
    changes: List[Tuple[int, int, str]] = []
    where: Optional[str] = folder  # None once a `cd` leads to a folder that only the shell knows
    outer: List[Optional[str]] = []
    for operator, words in _commands(setup):
        texts = [word.text for word in words]
        if texts[:1] == ["cd"]:
            known = where is not None and len(words) == 2 and words[1].fixed
            where = os.path.join(where or "", words[1].text) if known else None
        elif where is not None and _installs(texts):
            changes += _changes(words, where, substitute)
        if operator == "(":
            outer.append(where)
        elif operator == ")" and outer:
            where = outer.pop()
    for start, end, new in reversed(changes):
        setup = setup[:start] + new + setup[end:]
    return setup


def installer_of(setup: str) -> str:
    """Return the first word that is pip in a plain `pip install`, or nothing."""
    for _, words in _commands(setup):
        texts = [word.text for word in words]
        if texts and _PIP.match(os.path.basename(texts[0])) and _installs(texts) and words[0].fixed:
            return texts[0]
    return ""


def commands(setup: str) -> List[List[str]]:
    """List the simple commands of a set-up, each as the words that a program would receive."""
    return [[word.text for word in words] for _, words in _commands(setup) if words]


def _commands(setup: str) -> List[Tuple[str, List[_Word]]]:
    """Split into simple commands, each with the operator that ends it."""
    found: List[Tuple[str, List[_Word]]] = []
    words: List[_Word] = []
    for piece in _PIECE.finditer(setup):
        if piece.lastgroup == "stray":
            break  # an unclosed quote: the rest cannot be parsed reliably
        if piece.lastgroup == "op":
            found.append((piece.group(), words))
            words = []
        elif piece.lastgroup == "word" and piece.group() != "\\\n":
            raw = piece.group()
            words.append(_Word(unquoted(raw), piece.start(), piece.end(), _is_fixed(raw)))
    return [*found, ("", words)]


def _installs(texts: List[str]) -> bool:
    for place, text in enumerate(texts):
        if _PIP.match(os.path.basename(text)):
            return any(verb in texts[place + 1 :] for verb in ("install", "sync"))
    return False


def _changes(words: List[_Word], where: str, substitute: Substitute) -> List[Tuple[int, int, str]]:
    found = []
    for before, word in zip([None, *words], words):
        option, value = _option(before.text if before else "", word.text)
        if not option or not word.fixed:
            continue
        path = os.path.join(where, value)
        new = substitute(path, option.startswith(("-c", "--c")))
        if os.path.abspath(new) != os.path.abspath(path):
            prefix = word.text[: len(word.text) - len(value)]
            found.append((word.start, word.end, prefix + shlex.quote(new)))
    return found


def _option(before: str, text: str) -> Tuple[str, str]:
    """Return the option of a word that has a file: `-r FILE`, `-rFILE`, `--requirement FILE`, `--requirement=FILE`."""
    if before in _FILE_OPTIONS and not text.startswith("-"):
        return before, text
    name, equals, value = text.partition("=")
    if equals and name in _FILE_OPTIONS and name.startswith("--"):
        return name, value
    if text[:2] in ("-r", "-c") and len(text) > 2:
        return text[:2], text[2:]
    return "", ""


def _is_fixed(raw: str) -> bool:
    """Return whether the shell leaves a word unchanged: single quotes protect all; elsewhere $ ` * ? ~ expand."""
    return not _MADE_BY_THE_SHELL.search(re.sub(r"'[^']*'", "", raw))


def unquoted(raw: str) -> str:
    """Return a word as the shell would pass it on; one with an unclosed quote stays as it is."""
    try:
        return "".join(shlex.split(raw))
    except ValueError:
        return raw
