"""Which files make up a run's identity: `.leaseignore`, and the files that cannot affect a training.

A file is treated in one of three ways. It counts: other content is another run. It lies beside: it is sent, since a
package may need its README to be installed, but other content is the same run. Or it is not sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from leasehold.errors import UserError
from leasehold.kit.files.globbing import compile_pattern

NAME = ".leaseignore"
# docs/first-run.md lists these; a line `!pattern` in .leaseignore makes such a file count.
BESIDE = (
    *("*.md", "*.rst", "*.adoc", "LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "AUTHORS*", "CHANGELOG*"),
    *("CITATION*", "CODEOWNERS", "*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp", "*.bmp", "*.ico", "*.pdf"),
    *(".gitignore", ".gitattributes", ".mailmap", ".editorconfig", NAME, ".pre-commit-config.yaml"),
    *(".gitlab-ci.yml", ".github/", ".vscode/", ".idea/"),
)
_JOB_KEY = re.compile(r"^(?P<quote>[\"']?)(run|artifacts)(?P=quote)[ \t]*:", re.MULTILINE)
_JSON_KEY = re.compile(r"[{,]\s*\"(run|artifacts)\"\s*:")
_JOB_BYTES = 64 << 10


class Place(Enum):
    """How a file of the project is treated."""

    COUNTS = "counts"
    BESIDE = "beside"
    HOME = "home"


@dataclass(frozen=True)
class _Rule:
    regex: re.Pattern[str]
    keeps: bool  # a line that begins with `!` cancels an earlier one
    only_folders: bool


class LeaseIgnore:
    """The rules of one file; the last that matches a path or a folder above it decides."""

    def __init__(self, lines: list[str]) -> None:
        self._rules = [rule for line in lines for rule in _rules(line)]
        self._beside = [rule for line in BESIDE for rule in _rules(line)]
        self._folder = lru_cache(maxsize=None)(self._ignores_folder)
        self._beside_folder = lru_cache(maxsize=None)(self._folder_beside)

    def place(self, path: str) -> Place:
        """Return how a file is treated, as far as its path decides that."""
        if self.ignores(path):
            return Place.HOME
        return Place.BESIDE if self._lies_beside(path) and not self.keeps(path) else Place.COUNTS

    def ignores(self, path: str) -> bool:
        """Return whether a file is not sent."""
        if not self._rules:
            return False
        folder = path.rpartition("/")[0]
        return (bool(folder) and self._folder(folder)) or self._decides(path, is_folder=False)

    def keeps(self, path: str) -> bool:
        """Return whether a line `!pattern` matches the file or a folder above it."""
        keeping = [rule for rule in self._rules if rule.keeps]
        above = path.split("/")[:-1]
        folders = ["/".join(above[:depth]) for depth in range(1, len(above) + 1)]
        return any(
            not rule.only_folders and rule.regex.match(path) or any(rule.regex.match(folder) for folder in folders)
            for rule in keeping
        )

    def _lies_beside(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        return (bool(folder) and self._beside_folder(folder)) or any(
            not rule.only_folders and rule.regex.match(path) for rule in self._beside
        )

    def _folder_beside(self, folder: str) -> bool:
        above = folder.rpartition("/")[0]
        here = any(rule.only_folders and rule.regex.match(folder) for rule in self._beside)
        return here or (bool(above) and self._beside_folder(above))

    def _ignores_folder(self, folder: str) -> bool:
        above = folder.rpartition("/")[0]
        return (bool(above) and self._folder(above)) or self._decides(folder, is_folder=True)

    def _decides(self, path: str, *, is_folder: bool) -> bool:
        for rule in reversed(self._rules):
            if (is_folder or not rule.only_folders) and rule.regex.match(path):
                return not rule.keeps
        return False


def is_other_job(folder: Path, path: str) -> bool:
    """Return whether a YAML file at the top of the project is another job: it has a run command and promises."""
    if "/" in path or not path.endswith((".yaml", ".yml")):
        return False
    try:
        with open(folder / path, "rb") as file:
            text = file.read(_JOB_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    found = _JSON_KEY.findall(text) if text.lstrip().startswith("{") else [name for _, name in _JOB_KEY.findall(text)]
    return {"run", "artifacts"} <= set(found)


def read_ignore(folder: Path) -> LeaseIgnore:
    """Read the project's `.leaseignore`; without one no more files are ignored."""
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
