"""`.leaseignore`: what stays at home though git knows it, in gitignore's own words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from leasehold.errors import UserError
from leasehold.kit.match import compile_pattern

NAME = ".leaseignore"


@dataclass(frozen=True)
class _Rule:
    regex: re.Pattern[str]
    keeps: bool  # a line that begins with `!` takes back an earlier one
    only_folders: bool


class LeaseIgnore:
    """The rules of one file; the last that fits a path or a folder above it decides."""

    def __init__(self, lines: list[str]) -> None:
        self._rules = [rule for line in lines for rule in _rules(line)]
        self._folder = lru_cache(maxsize=None)(self._ignores_folder)

    def ignores(self, path: str) -> bool:
        """Tell whether a file stays at home."""
        if not self._rules:
            return False
        folder = path.rpartition("/")[0]
        return (bool(folder) and self._folder(folder)) or self._decides(path, is_folder=False)

    def _ignores_folder(self, folder: str) -> bool:
        above = folder.rpartition("/")[0]
        return (bool(above) and self._folder(above)) or self._decides(folder, is_folder=True)

    def _decides(self, path: str, *, is_folder: bool) -> bool:
        for rule in reversed(self._rules):
            if (is_folder or not rule.only_folders) and rule.regex.match(path):
                return not rule.keeps
        return False


def read_ignore(folder: Path) -> LeaseIgnore:
    """Read the project's `.leaseignore`; without one nothing more is ignored."""
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return LeaseIgnore([])
    except (OSError, UnicodeError) as error:
        raise UserError(
            "code.bad_ignore", f"{folder / NAME}: {error}", hint="it is plain text, as .gitignore"
        ) from None
    return LeaseIgnore(text.splitlines())


def _rules(line: str) -> list[_Rule]:
    line = line.rstrip()
    if not line or line.startswith("#"):
        return []
    keeps = line.startswith("!")
    pattern = line[1:] if keeps else line.removeprefix("\\")
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anchored = "/" in pattern
    pattern = pattern.lstrip("/")
    if not pattern:
        return []
    return [_Rule(compile_pattern(pattern if anchored else "**/" + pattern), keeps, only_folders)]
