"""YAML's tokens: where spaces, scalars, tags and anchors end. No values are built."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from leasehold.kit.readers.base.result import Unreadable, legible

_BLANK = re.compile(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*[ ]*")
_INLINE = re.compile(r"[ \t]*")
_REST = re.compile(r"[ \t]*(?:(?<=[ \t])#[^\n]*)?(?=\n|\Z)")
_COLON = re.compile(r"[ \t]*:(?=[ \t\n]|\Z)")
_NAME = re.compile(r"[0-9A-Za-z_-]+(?=[ \t\n,\]}]|\Z)")  # PyYAML recognises no others
_TAG = re.compile(r"!(?:<[^>\s]*>|[^\s,\[\]{}]*)")
_HEADER = re.compile(r"[|>](?:([-+])?([1-9])?|([1-9])([-+]))[ \t]*(?:(?<=[ \t])#[^\n]*)?(?:\n|\Z)")
_SINGLE = re.compile(r"'(?:[^']|'')*'")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\(?:[0abt\tnvfre "/\\N_LP\n]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*"')
# Where a plain scalar ends on its line: before ": ", " #", and inside brackets before their signs. A tab inside one
# ends it, as in PyYAML; within brackets a question mark does, too.
_PLAIN = re.compile(r"(?:[^\s:#]|:(?![ \t\n]|\Z)|(?<![ \t])#| +(?![ \t#:\n]|\Z)| +:(?![ \t\n]|\Z))+")
_PLAIN_FLOW = re.compile(
    r"(?:[^\s:#,?\[\]{}]|:(?![ \t\n,?\[\]{}]|\Z)|(?<![ \t])#| +(?![ \t#:,?\[\]{}\n]|\Z)| +:(?![ \t\n,?\[\]{}]|\Z))+"
)
_PLAIN_BEGIN = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[-?:](?=[^\s])")
_PLAIN_BEGIN_FLOW = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[-?:](?=[^\s,\[\]{}])")
_MARK = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_BREAK = re.compile(r"[ \t]*\n(?:[ \t]*\n)*[ \t]*")
_LINES_MOST = 10_000  # of one plain scalar


class Scalar(NamedTuple):
    """The place of a scalar, whether it is plain text, and whether it is on one line."""

    begin: int
    end: int
    plain: bool
    one_line: bool


class Text:
    """A YAML text and a position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fault(self, seen: str) -> Unreadable:
        """Name the line of a fault."""
        return Unreadable("line %d: %s" % (self.text.count("\n", 0, self.at) + 1, seen))

    @property
    def column(self) -> int:
        """Return the column of the position."""
        return self.at - self.text.rfind("\n", 0, self.at) - 1

    def peek(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def is_entry(self, sign: str) -> bool:
        """Return whether a block entry's sign is here: "-" or "?" followed by a space."""
        return self.peek() == sign and self.text[self.at + 1 : self.at + 2] in ("", " ", "\t", "\n")

    def skip_lines(self) -> bool:
        """Go to the next text that is not a comment; return whether a line ended on the way."""
        before = self.at
        self._skip(_INLINE)
        self._comment(before)
        if self.peek() not in ("\n", ""):
            if "\t" in self.text[before : self.at]:
                raise self.fault("a tab before a value: some readers take it for no space")
            return False
        self._skip(_BLANK)
        line = self.text.rfind("\n", 0, self.at) + 1
        if "\t" in self.text[line : self.at] or self.peek() == "\t":
            raise self.fault("a tab where spaces should indent")
        return True

    def skip_inline(self) -> None:
        """Skip spaces and tabs."""
        self._skip(_INLINE)

    def skip_colon(self) -> bool:
        """Skip the colon behind a key, if one is here."""
        found = _COLON.match(self.text, self.at)
        if found:
            self.at = found.end()
        return bool(found)

    def is_mark(self) -> bool:
        """Return whether a document begins or ends here."""
        return bool(_MARK.match(self.text, self.at)) and self.column == 0

    def end_line(self) -> None:
        """Refuse anything but a comment on the rest of the line."""
        found = _REST.match(self.text, self.at)
        if not found:
            raise self.fault("%s is where a line should end" % legible(self.text[self.at : self.at + 20]))
        self.at = found.end()

    def name(self, what: str) -> str:
        """Read the name of an anchor or an alias behind its sign."""
        found = _NAME.match(self.text, self.at + 1)
        if not found:
            raise self.fault("%s without a name of letters, digits, - and _" % what)
        self.at = found.end()
        return found.group()

    def tag(self) -> str:
        """Read a tag."""
        found = _TAG.match(self.text, self.at)
        assert found
        self.at = found.end()
        return found.group()

    def quoted(self, indent: int) -> Scalar:
        """Skip a quoted scalar; its lines are indented, and none of them begins a document."""
        begin = self.at
        found = (_SINGLE if self.peek() == "'" else _DOUBLE).match(self.text, self.at)
        if not found:
            raise self.fault("a quoted text has no end, or an escape that YAML does not know")
        self.at = found.end()
        for line in found.group().split("\n")[1:]:
            if _MARK.match(line):
                raise self.fault("a document begins or ends inside of a quoted text")
        return Scalar(begin, self.at, False, "\n" not in found.group())

    def plain(self, indent: int, in_flow: bool) -> Scalar:
        """Skip a plain scalar, over lines that are indented more than `indent`."""
        begin = self.at
        if not (_PLAIN_BEGIN_FLOW if in_flow else _PLAIN_BEGIN).match(self.text, begin):
            raise self.fault("%s cannot begin a value" % legible(ascii(self.peek())))
        shape, lines = _PLAIN_FLOW if in_flow else _PLAIN, 0
        end = self._matched(shape, begin)
        while lines < _LINES_MOST:
            following = self._continued(end, indent, in_flow)
            if following is None:
                break
            end, lines = self._matched(shape, following), lines + 1
        self.at = end
        return Scalar(begin, end, True, not lines)

    def block_scalar(self, indent: int) -> Scalar:
        """Skip the lines of a literal or folded text, which are indented more than `indent`."""
        begin = self.at
        found = _HEADER.match(self.text, begin)
        if not found:
            raise self.fault("%s does not start a block of text" % legible(self.text[begin : begin + 10]))
        stated = found.group(2) or found.group(3)
        least = max(indent, 0) + int(stated) if stated else 0  # at least 1: PyYAML accepts no text at the margin
        at = found.end()
        while at < len(self.text):
            end = self.text.find("\n", at)
            line = self.text[at : end if end >= 0 else len(self.text)]
            depth = len(line) - len(line.lstrip(" "))
            if line.strip(" "):
                least = least or max(depth, indent + 1, 1)
                if depth < least or (not depth and _MARK.match(line)):
                    break
            at = end + 1 if end >= 0 else len(self.text)
        self.at = at
        return Scalar(begin, at, False, False)

    def _continued(self, end: int, indent: int, in_flow: bool) -> Optional[int]:
        """Return where a plain scalar continues after a line's end; None if it does not."""
        found = _BREAK.match(self.text, end)
        if not found or found.end() >= len(self.text):
            return None
        at = found.end()
        column = at - self.text.rfind("\n", 0, at) - 1
        signs = "#,[]{}:" if in_flow else "#"
        if column <= indent or (not column and _MARK.match(self.text, at)):
            return None
        if self.text[at] in signs and not (self.text[at] == ":" and not _COLON.match(self.text, at)):
            return None
        return None if _COLON.match(self.text, at) else at

    def _matched(self, shape: "re.Pattern[str]", at: int) -> int:
        found = shape.match(self.text, at)
        if not found:
            self.at = at
            raise self.fault("%s cannot stand here" % legible(ascii(self.text[at : at + 1])))
        return found.end()

    def _skip(self, shape: "re.Pattern[str]") -> None:
        found = shape.match(self.text, self.at)
        assert found
        self.at = found.end()

    def _comment(self, before: int) -> None:
        if self.peek() == "#" and (self.at > before or not self.column):
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
