"""Names of a box's files at home, chosen so that no two of them collide on any file system.

A box distinguishes `A.json` from `a.json`; macOS and Windows do not, and a copy of the results to such a disk would
lose one. The first of such names is kept, the others get a suffix computed from their own path: `a~1f3b9c2d.json`.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from leasehold.kit.text.safe_text import one_line
from leasehold.model.run.note import Note

_PLAIN = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\Z", re.IGNORECASE)
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")  # HFS+ ignores them in comparisons
_FOREIGN = re.compile(r'[\\:*?"<>|\x00-\x1f\x7f]')  # characters that Windows refuses in a name
_CANNOT = (errno.EINVAL, errno.ENOENT, errno.EILSEQ, errno.ENAMETOOLONG, errno.EPROTO)
_MOST_BYTES = 255
_MARK_DIGITS = 8
_SHOWN = 10

Holds = Callable[[str], bool]


def folded(segment: str) -> str:
    """Normalize a name: two that any file system considers equal become equal."""
    if segment.isascii():
        return segment.lower().rstrip(". ")
    bare = _UNSEEN.sub("", unicodedata.normalize("NFC", segment))
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", bare.upper()).casefold()).rstrip(". ")


def listed_order(path: str) -> tuple[tuple[bool, str], ...]:
    """Sort paths as a box lists them: the files of a folder first, then its folders."""
    *folders, name = path.split("/")
    return (*((True, folder) for folder in folders), (False, name))


class HomeNames:
    """Names the files of some cells at home, one after the other; the same box path gets the same name again."""

    def __init__(self, holds: Holds = lambda segment: True) -> None:
        self._holds = holds
        self._known: dict[str, str] = {}  # folders, and files named before
        self.twins: list[tuple[str, str, str]] = []  # path, the path whose name it would take, and its name at home
        self._taken: dict[str, dict[str, str]] = {}  # by home folder: normalized name -> its owner

    def of(self, cell: str, path: str) -> str:
        """Return where a file of a cell lies at home, below the cell's folder."""
        folder, slash, name = path.rpartition("/")
        home = self._folder(cell, folder)
        before = self._known.get(f"{cell}/{path}")
        return (before or home + slash + self._name(cell, home, path, name))[len(cell) + 1 :]

    def keep(self, cell: str, path: str, home: str) -> None:
        """Keep the name that a file got before."""
        at = cell + "/"
        theirs, ours = path.split("/"), home.split("/")
        for count in range(1, len(theirs) + 1):
            spelled = "/".join(theirs[:count])
            self._taken.setdefault(at, {})[folded(ours[count - 1])] = spelled
            at = self._known[f"{cell}/{spelled}"] = f"{cell}/{'/'.join(ours[:count])}"

    def _folder(self, cell: str, folder: str) -> str:
        if not folder:
            return cell + "/"
        key = f"{cell}/{folder}"
        known = self._known.get(key)
        if known is None:
            above, slash, name = folder.rpartition("/")
            home = self._folder(cell, above)
            known = self._known[key] = home + slash + self._name(cell, home, folder, name)
        return known

    def _name(self, cell: str, home: str, path: str, segment: str) -> str:
        taken = self._taken.setdefault(home, {})
        name, digits, plain = segment, 0, False
        if not _PLAIN.match(segment) or _is_device(segment):
            while not self._holds(name) and not plain:
                plain, digits = digits > 0, digits + _MARK_DIGITS
                name = _marked(segment, path, digits, plain=plain)
        other = taken.get(folded(name), path)
        while taken.setdefault(folded(name), path) != path:
            digits += _MARK_DIGITS
            name = _marked(segment, path, digits, plain=plain)
        if other != path and name != segment:
            self.twins.append((path, other, f"{home}/{name}".partition("/")[2].lstrip("/")))
        return name


@dataclass(frozen=True)
class Twin:
    """A file or folder whose name some file systems equate with another's, and its name at home."""

    path: str
    other: str
    name: str


def twins(paths: Iterable[str]) -> list[Twin]:
    """List what gets another name at home because of another file's name, in the box's order."""
    names = HomeNames()
    for path in sorted(paths, key=listed_order):
        names.of("cell", path)
    return [Twin(path, other, name) for path, other, name in names.twins]


def named(rows: Iterable[tuple[str, str]], holds: Holds) -> dict[tuple[str, str], str]:
    """Name files in list order, each by its cell and path."""
    names = HomeNames(holds)
    return {(cell, path): names.of(cell, path) for cell, path in rows}


def notes_of_names(names: Mapping[str, str]) -> Iterator[Note]:
    """Report which files have another name at home, by cell/path."""
    for key, home in list(names.items())[:_SHOWN]:
        why = "some file systems take it for another file's name, or cannot hold it"
        yield Note("renamed", f"{one_line(key)} is {one_line(home)} at home: {why}")
    if len(names) > _SHOWN:
        yield Note("renamed", f"… and {len(names) - _SHOWN} more: home_names in receipt.json")


class Probe:
    """Asks the file system of a folder whether it keeps a name as it is; one name of each sort is tried."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[object, ...], bool] = {}

    def __call__(self, segment: str) -> bool:
        sort = _sort_of(segment)
        if sort not in self._known:
            self._known[sort] = self._keeps(segment)
        return self._known[sort]

    def _keeps(self, segment: str) -> bool:
        with tempfile.TemporaryDirectory(prefix=".names-", dir=self._folder) as place:
            try:
                os.close(os.open(os.path.join(place, segment), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return os.listdir(place) == [segment]
            except OSError as error:
                return error.errno not in _CANNOT  # a full disk proves nothing about names


def _sort_of(segment: str) -> tuple[object, ...]:
    forms = tuple(unicodedata.is_normalized(form, segment) for form in ("NFC", "NFD"))
    size = len(segment.encode("utf-8", "surrogateescape"))
    odd = frozenset(_FOREIGN.findall(segment))
    return segment.isascii(), forms, size > 140, odd, segment[-1:] in ". ", _is_device(segment)


def _is_device(segment: str) -> bool:
    return bool(_DEVICE.match(segment.partition(".")[0].rstrip(" ")))


def _marked(segment: str, path: str, digits: int, *, plain: bool) -> str:
    """Put a mark of the whole path before a name's ending; a plain one has nothing left that any disk refuses."""
    mark = "~" + sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[: min(digits, 64)]
    stem, ending = os.path.splitext(_FOREIGN.sub("_", segment).rstrip(". "))
    ending = ending if ending.isascii() and len(ending) < 20 else ""
    if plain or _is_device(segment):
        stem = "file" if plain else "_" + stem
    room = _MOST_BYTES - len(mark) - len(ending)
    stem = stem.encode("utf-8", "surrogateescape")[:room].decode("utf-8", "ignore").rstrip(". ")
    return (stem or "file") + mark + ending
