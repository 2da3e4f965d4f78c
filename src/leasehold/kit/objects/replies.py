"""Read a store's XML within bounds: no entities, no document type, no endless nesting."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional
from xml.parsers import expat

MOST_BYTES = 16 << 20  # a list of 1,000 keys of 1,024 bytes, each written with escapes
_MOST_DEPTH = 12
_MOST_NODES = 60000
_MOST_TEXT = 64 << 10  # characters of one element


class BadReply(ValueError):
    """An answer that is not what S3 answers; str() gives the reason."""


class Node:
    """An element: its name without a namespace, its text, its children."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: List[Node] = []

    def all(self, name: str) -> Iterator["Node"]:
        """Yield the children of a name."""
        return (child for child in self.children if child.name == name)

    def say(self, name: str, default: str = "") -> str:
        """Return the text of the first child of a name."""
        return next((child.text for child in self.all(name)), default)

    def whole(self, name: str) -> int:
        """Return the number in a child; -1 if it holds none."""
        text = self.say(name).strip()
        return int(text) if text.isdigit() and len(text) < 20 else -1


class Fault(NamedTuple):
    """The error that a store answered."""

    code: str
    message: str
    facts: Dict[str, str]


def parse(data: bytes) -> Node:
    """Read a document; raises BadReply."""
    if len(data) > MOST_BYTES:
        raise BadReply("it is longer than %d bytes" % MOST_BYTES)
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise BadReply("it is no XML: %s" % error) from None
    if reader.root is None:
        raise BadReply("it is empty")
    return reader.root


def parse_fault(data: bytes) -> Fault:
    """Read the body of an error; one that is not S3's has an empty code."""
    try:
        root = parse(data[: 256 << 10])
    except BadReply:
        return Fault("", "", {})
    node: Optional[Node] = root if root.name == "Error" else next(root.all("Error"), None)
    if node is None:
        return Fault("", "", {})
    facts = {child.name: child.text[:300] for child in node.children}
    return Fault(facts.get("Code", "")[:80], facts.get("Message", ""), facts)


class _Reader:
    def __init__(self) -> None:
        self.root: Optional[Node] = None
        self._open: List[Node] = []
        self._nodes = 0
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        self.parser = parser

    def _start(self, name: str, _: Dict[str, str]) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(self._open) >= _MOST_DEPTH:
            raise BadReply("it is nested deeper or has more elements than any answer of S3")
        node = Node(name.rpartition(" ")[2])
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if self._open:
            if len(self._open[-1].text) + len(text) > _MOST_TEXT:
                raise BadReply("one element holds more than %d characters" % _MOST_TEXT)
            self._open[-1].text += text

    def _refuse(self, *_: object) -> None:
        raise BadReply("it declares a document type or an entity")
