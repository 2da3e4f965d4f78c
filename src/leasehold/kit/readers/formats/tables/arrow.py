"""Arrow files (Feather 2): the footer, every batch in its place, every buffer of the required length."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, NumberTally, Reading, Unreadable, legible

from .extension_types import pickled_types
from .flatbuffers import Table, root

_MAGIC = b"ARROW1"
_MOST_MESSAGE_BYTES = 64 << 20
_MOST_BATCHES = 200_000
_MOST_FIELDS = 200_000
_MOST_DEPTH = 64
_BLOCK, _NODE, _BUFFER = "<qi4xq", "<qq", "<qq"
_SCHEMA_FIELDS, _RECORD_BATCH, _DICTIONARY_BATCH = 1, 3, 2
_FLOAT, _BINARY, _TEXT, _LIST, _STRUCT, _UNION, _FIXED_LIST, _MAP = 3, 4, 5, 12, 13, 14, 16, 17
_LARGE_BINARY, _LARGE_TEXT, _LARGE_LIST, _RUNS, _BINARY_VIEW, _TEXT_VIEW, _LIST_VIEW, _LARGE_LIST_VIEW = range(19, 27)
_CHILDREN = {_LIST: 1, _LARGE_LIST: 1, _FIXED_LIST: 1, _MAP: 1, _LIST_VIEW: 1, _LARGE_LIST_VIEW: 1, _RUNS: 2}
_BUFFERS = {
    1: 0, _BINARY: 3, _TEXT: 3, _LARGE_BINARY: 3, _LARGE_TEXT: 3, _STRUCT: 1, _FIXED_LIST: 1, _RUNS: 0,
    _LIST_VIEW: 3, _LARGE_LIST_VIEW: 3,
}  # fmt: skip
_VIEWS = (_BINARY_VIEW, _TEXT_VIEW)
_FLOATS = (("F16", 2), ("F32", 4), ("F64", 8))  # by Arrow's precision
_COMPRESSIONS = ("lz4", "zstd")


class _Field(NamedTuple):
    """A column or a part of one, in the order in which a batch lists them."""

    name: str
    kind: int
    buffers: int
    bits: int  # of a value in the second buffer; 0 if not fixed
    dtype: str


class _Block(NamedTuple):
    at: int
    head: int
    body: int


def read_arrow(source: Source, limits: Limits) -> Reading:
    """Read the footer and every batch's description; count NaN in uncompressed floats."""
    described = _footer(source)
    footer = root(described)
    schema = footer.table(1)
    if schema is None:
        raise Unreadable("its footer has no schema")
    fields: List[_Field] = []
    columns = schema.tables(_SCHEMA_FIELDS)
    for column in columns:
        for field in _flattened(column, column.text(0), 0):  # bounded: a damaged schema can name one part over and over
            fields.append(field)
            if len(fields) > _MOST_FIELDS:
                raise Unreadable("has more than %d columns" % _MOST_FIELDS)
    dictionaries, batches = ([_Block(*block) for block in footer.structures(number, _BLOCK)] for number in (2, 3))
    _check_places(dictionaries + batches, source)
    look = _Look(source, fields, schema.number(0, "<h") == 1)
    rows = sum(look.batch(block, _RECORD_BATCH) for block in batches)
    for block in dictionaries:
        look.batch(block, _DICTIONARY_BATCH)
    keys = KeyList(limits)
    keys.extend(column.text(0) for column in columns)
    packed = "compressed by %s" % ", ".join(sorted(look.packed)) if look.packed else "not compressed"
    notes = ["%d rows in %d batches, %s; the format has no checksum" % (rows, len(batches), packed), *keys.notes()]
    numel = rows * len(columns)
    opaque = pickled_types(described)
    return Reading("arrow", source.size, len(columns), numel, keys.names(), opaque, tuple(notes), look.numbers())


def _footer(source: Source) -> bytes:
    head = source.read_at(0, min(source.size, 8))
    if head[:4] == b"FEA1":
        raise Unreadable("is Feather version 1, which Leasehold cannot read; it reads version 2")
    if head[:6] != _MAGIC or source.size < 20:
        raise Unreadable("is no Arrow file: it does not begin with ARROW1")
    tail = source.read_at(source.size - 10, 10)
    if tail[4:] != _MAGIC:
        raise Unreadable("cut short: an Arrow file ends with ARROW1")
    length = int.from_bytes(tail[:4], "little")
    if length > source.size - 18 or length > _MOST_MESSAGE_BYTES:
        raise Unreadable("its footer claims %d bytes of a file of %d" % (length, source.size))
    return source.read_at(source.size - 10 - length, length)


def _check_places(blocks: List[_Block], source: Source) -> None:
    if len(blocks) > _MOST_BATCHES:
        raise Unreadable("has more than %d batches" % _MOST_BATCHES)
    at = 8
    for block in sorted(blocks):
        if block.at < at or block.head < 8 or block.body < 0 or block.at + block.head + block.body > source.size - 10:
            raise Unreadable("a batch at byte %d overlaps another part or ends past the file" % block.at)
        at = block.at + block.head + block.body


def _flattened(field: Table, path: str, depth: int) -> Iterator[_Field]:
    """Yield a field and those inside it, parents first."""
    if depth > _MOST_DEPTH:
        raise Unreadable("has columns inside of columns, deeper than %d" % _MOST_DEPTH)
    kind, facts, children = field.number(2, "<B"), field.table(3), field.tables(5)
    if field.table(4) is not None:  # dictionary indexes lie in the batch; the dictionary's own batch has the values
        index = field.table(4)
        whole = index.table(1) if index is not None else None
        bits = whole.number(0, "<i", 0) if whole is not None else 32
        yield _Field(path, _FLOAT if kind == _FLOAT else 2, 2, bits, "")
        return
    if not 0 < kind < 27 or (facts is None and kind != 1):
        raise Unreadable("column %s has type %d, which is unknown" % (legible(path), kind))
    wanted = _CHILDREN.get(kind)
    if (wanted is not None and len(children) != wanted) or (children and kind not in (*_CHILDREN, _STRUCT, _UNION)):
        raise Unreadable("column %s has %d parts" % (legible(path), len(children)))
    bits, dtype, buffers = _width(kind, facts), "", _BUFFERS.get(kind, 2)
    if kind == _FLOAT and facts is not None:
        precision = facts.number(0, "<h")
        if not 0 <= precision < 3:
            raise Unreadable("column %s has floats of unknown width" % legible(path))
        dtype, width = _FLOATS[precision]
        bits = 8 * width
    if kind == _UNION and facts is not None:
        buffers = 2 if facts.number(0, "<h") == 1 else 1
    yield _Field(path, kind, buffers, bits, dtype)
    for child in children:
        yield from _flattened(child, "%s.%s" % (path, child.text(0)), depth + 1)


def _width(kind: int, facts: Optional[Table]) -> int:
    """Return the bits of a value, for types whose second buffer has one for each row."""
    if facts is None:
        return 0
    if kind == 2:
        return facts.number(0, "<i")
    if kind == 7:
        return facts.number(2, "<i", 128)
    if kind == 15:
        return 8 * facts.number(0, "<i")
    return {6: 1, 8: 64 if facts.number(0, "<h", 1) == 1 else 32, 10: 64, 18: 64}.get(kind, 0)


class _Look:
    """Parses batches by the columns of the schema."""

    def __init__(self, source: Source, fields: List[_Field], big_endian: bool) -> None:
        self._source, self._fields, self._big = source, fields, big_endian
        self._tally = NumberTally()
        self._unread: Dict[str, None] = {}
        self._looked = False
        self.packed: Dict[str, None] = {}

    def batch(self, block: _Block, kind: int) -> int:
        """Check a batch; return its count of rows."""
        head = self._source.read_at(block.at, min(block.head, _MOST_MESSAGE_BYTES))
        begin = 8 if head[:4] == b"\xff\xff\xff\xff" else 4
        message = root(head[begin:])
        if message.number(1, "<B") != kind or message.number(3, "<q") != block.body:
            raise Unreadable("the batch at byte %d is not what the footer says" % block.at)
        batch = message.table(2)
        batch = batch.table(1) if batch is not None and kind == _DICTIONARY_BATCH else batch
        if batch is None:
            raise Unreadable("the batch at byte %d describes nothing" % block.at)
        rows, compression = batch.number(0, "<q"), batch.table(3)
        if compression is not None:
            codec = compression.number(0, "<b")
            self.packed[_COMPRESSIONS[codec] if codec in (0, 1) else "an unknown method"] = None
        nodes, buffers = batch.structures(1, _NODE), batch.structures(2, _BUFFER)
        self._check_buffers(buffers, block)
        if kind == _RECORD_BATCH:
            views = batch.structures(4, "<q")
            self._columns(block, nodes, buffers, [count for (count,) in views], rows, compression is not None)
        return rows

    def _check_buffers(self, buffers: List[Tuple[int, ...]], block: _Block) -> None:
        for offset, length in buffers:
            if offset < 0 or length < 0 or offset + length > block.body:
                raise Unreadable("a buffer of the batch at byte %d ends past it" % block.at)

    def _columns(
        self, block: _Block, nodes: List[Tuple[int, ...]], buffers: List[Tuple[int, ...]], views: List[int],
        rows: int, packed: bool,
    ) -> None:  # fmt: skip
        """Assign the buffers to the columns; each must have as many as its type needs, and values for every row."""
        if len(nodes) != len(self._fields):
            raise Unreadable("a batch has %d columns, the schema %d" % (len(nodes), len(self._fields)))
        at, waiting = 0, list(reversed(views))
        for field, (length, nulls) in zip(self._fields, nodes):
            count = field.buffers
            if field.kind in _VIEWS:
                count += waiting.pop() if waiting else 0
            if count < 0 or length < 0 or at + count > len(buffers) or not 0 <= nulls <= max(length, 0):
                raise Unreadable("column %s has fewer buffers than its type needs" % legible(field.name))
            if "." not in field.name and length != rows:
                raise Unreadable("column %s has %d rows, its batch %d" % (legible(field.name), length, rows))
            self._column(block, field, length, nulls, buffers[at : at + count], packed)
            at += count
        if at != len(buffers):
            raise Unreadable("a batch has %d buffers, its columns need %d" % (len(buffers), at))

    def _column(
        self, block: _Block, field: _Field, length: int, nulls: int, buffers: List[Tuple[int, ...]], packed: bool
    ) -> None:
        if field.kind == _FLOAT and not field.dtype and length:
            self._unread["%s (in a dictionary)" % legible(field.name, 60)] = None
        if not field.bits or packed or not length:
            if field.dtype and packed and length:
                self._unread["%s (compressed)" % legible(field.name, 60)] = None
            return
        offset, size = buffers[1]
        need = -(-length * field.bits // 8)
        if need > size:
            raise Unreadable(
                "column %s of %d rows needs %d bytes, it has %d" % (legible(field.name), length, need, size)
            )
        if field.dtype:
            counter = Counter(field.dtype, big_endian=self._big)
            for piece in self._source.pieces(block.at + block.head + offset, need):
                counter.take(piece)
            if nulls and counter.nan + counter.inf:  # they may lie where a value is missing
                self._unread["%s (has missing values)" % legible(field.name, 60)] = None
                return
            self._looked = True
            self._tally.add(field.name, counter.nan, counter.inf)

    def numbers(self) -> Optional[Numbers]:
        """Return what was counted, and which columns of floats were not examined; None if none was."""
        names = list(self._unread)
        if names and not self._looked:
            return None
        found = self._tally.numbers()
        more = " and %d more" % (len(names) - 5) if names[5:] else ""
        unread = "columns of floats: %s%s" % (", ".join(names[:5]), more) if names else ""
        return Numbers(found.nan, found.inf, found.where, found.more, unread)
