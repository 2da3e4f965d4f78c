"""Read requirements files as pip does, and write copies without the frameworks that the box already has.

The user's files are never touched: copies lie in the run's own folder, and only where something had to change.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
import urllib.parse
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Tuple

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_COMMENT = re.compile(r"(^|\s+)#.*$")
_NAMED = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^\]]*\])?\s*(?:\Z|[=<>!~;@(,\s])")
_EGG = re.compile(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)")
_INCLUDE = re.compile(r"(-r|--requirement|-c|--constraint|-f|--find-links)(?:\s*=\s*|\s+|(?<=-[rcf]))(\S.*)\Z")
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)\Z", re.I)
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_MAX_FILE_BYTES = 1 << 20
_MAX_FILES = 200


class Keep(NamedTuple):
    """What the box has (its lines are dropped) and what it lacks of the same family (their pins are dropped)."""

    present: FrozenSet[str]
    absent: FrozenSet[str]


class LeftOut(NamedTuple):
    """A line that was not passed on unchanged."""

    file: str  # as a person knows it
    line: int
    text: str
    instead: str  # the replacement; empty when the line is dropped

    def say(self) -> str:
        """Format for the log and the journal."""
        return "%s:%d %s%s" % (self.file, self.line, self.text, " -> %s" % self.instead if self.instead else "")


class Copies:
    """The copies made for one set-up: each file is read once, however often it is named."""

    def __init__(self, keep: Keep, root: str, into: str) -> None:
        self.keep = keep
        self.left_out: List[LeftOut] = []
        self._root = root
        self._into = into
        self._made: Dict[Tuple[str, bool], str] = {}

    def of(self, path: str, constraint: bool = False) -> str:
        """Return the path to use instead of `path`: a copy, or itself when nothing in it has to change."""
        real = os.path.realpath(path)
        key = (real, constraint)
        if key in self._made or len(self._made) >= _MAX_FILES:
            return self._made.get(key, path)
        text = read_text(path)
        self._made[key] = path
        if text is None:
            return path
        copy = os.path.join(self._into, "%02d-%s" % (len(self._made), os.path.basename(path)))
        self._made[key] = copy  # a file may include itself through others
        lines, changed = self._filter(text, path, constraint)
        if not changed:
            self._made[key] = path
            return path
        os.makedirs(self._into, exist_ok=True)
        body = "\n".join(lines) + "\n"
        with open(copy, "w", encoding="ascii" if body.isascii() else "utf-8-sig") as file:
            file.write(body)
        return copy

    def _filter(self, text: str, path: str, constraint: bool) -> Tuple[List[str], bool]:
        out: List[str] = []
        changed = False
        for number, raw, logical in logical_lines(text):
            instead = self._instead(logical, path, constraint)
            if instead is None:
                out += raw
                continue
            kind, new = instead
            changed = changed or kind != "moved"  # a path merely made absolute is no reason for a copy
            if kind == "line":
                shown = _USERINFO.sub("…@", logical)[:200]
                self.left_out.append(LeftOut(self._shown(path), number, shown, new))
                out.append("# leasehold left out: %s" % shown)
            out += [new] if new else []
        return out, changed

    def _instead(self, logical: str, path: str, constraint: bool) -> Optional[Tuple[str, str]]:
        included = _INCLUDE.match(logical)
        if included:
            return self._include(included.group(1), _unquoted(included.group(2)), path, constraint)
        name = name_of(logical)
        if name in self.keep.present:
            return "line", ""
        if name in self.keep.absent:
            loose = "" if constraint else _loosened(logical)
            return None if loose == logical else ("line", loose)
        return None

    def _include(self, option: str, value: str, path: str, constraint: bool) -> Optional[Tuple[str, str]]:
        """Write an included path for a copy that lies elsewhere; pip takes it relative to the file that names it."""
        target = os.path.join(os.path.dirname(os.path.abspath(path)), value)
        if "://" in value or not os.path.exists(target):
            return None
        used = target
        if option in ("-r", "--requirement", "-c", "--constraint"):
            used = self.of(target, constraint or option in ("-c", "--constraint"))
        return "moved" if used == target else "copied", "%s %s" % (option, shlex.quote(used))

    def _shown(self, path: str) -> str:
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self._root))
        return path if inside.startswith("..") else inside


def read_text(path: str) -> Optional[str]:
    """Read a requirements file in the encoding that its first bytes show; None when it cannot be one."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError):
        return None
    if len(data) > _MAX_FILE_BYTES:
        return None
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def logical_lines(text: str) -> List[Tuple[int, List[str], str]]:
    """Join continued lines; yield each with its first line's number, its raw lines, and its text without comment."""
    found: List[Tuple[int, List[str], str]] = []
    raw: List[str] = []
    start = 1
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        start = start if raw else number
        raw.append(line)
        comment = _COMMENT.match(line) is not None
        if line.endswith("\\") and not comment:
            continue
        found.append((start, raw, _joined(raw)))
        raw = []
    if raw:
        found.append((start, raw, _joined(raw)))
    return found


def name_of(line: str) -> str:
    """Return the normalised name of the package that a line requests; empty for options and lines without a name."""
    line = re.sub(r"^(?:-e|--editable)(?:\s+|=)", "", line)
    if not line or line.startswith("-"):
        return ""
    word = line.split(";")[0].split()[0] if line.split(";")[0].split() else ""
    if "://" not in word and not _ARCHIVE.search(word) and not word.startswith((".", "/")):
        named = _NAMED.match(line)
        return normal(named.group(1)) if named else ""
    if re.match(r"[A-Za-z0-9._-]+(\[[^\]]*\])?@", word):  # name@URL, without spaces
        return normal(re.split(r"[\[@]", word)[0])
    egg = _EGG.search(line)
    if egg:
        return normal(egg.group(1))
    file = urllib.parse.unquote(word.split("#")[0].split("?")[0]).rstrip("/").rpartition("/")[2]
    if file.lower().endswith(".whl"):
        return normal(file.split("-")[0])
    return normal(_ARCHIVE.sub("", file).rpartition("-")[0]) if _ARCHIVE.search(file) else ""


def normal(name: str) -> str:
    """Normalise a package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _joined(raw: List[str]) -> str:
    text = "".join(line[:-1] if line.endswith("\\") else line for line in raw)
    return _COMMENT.sub("", text).strip()


def _loosened(line: str) -> str:
    """Keep name, extras and marker; pip then chooses a version that fits the torch that stays."""
    named = _NAMED.match(line)
    if named is None:
        return ""
    marker = line.partition(";")[2].strip() if "://" not in line else ""
    marker = re.split(r"\s+--", marker)[0].strip()
    return "%s%s%s" % (named.group(1), named.group(2) or "", " ; %s" % marker if marker else "")


def _unquoted(value: str) -> str:
    try:
        return shlex.split(value)[0]
    except (ValueError, IndexError):
        return value
