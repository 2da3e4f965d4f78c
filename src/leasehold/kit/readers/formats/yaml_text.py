"""Read YAML for its structure alone: no value is made, no alias is followed, no tag is obeyed."""

from __future__ import annotations

import re
from typing import Optional, Set, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable, legible

from .yaml_scan import Scalar, Text

_MOST_BYTES = 2 << 20  # two seconds for a MiB
_STANDARD = re.compile(
    r"!|!!(str|int|float|bool|null|binary|timestamp|omap|pairs|set|seq|map|merge|value)"
    r"|!<tag:yaml\.org,2002:(str|int|float|bool|null|binary|timestamp|omap|pairs|set|seq|map|merge|value)>"
)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")
_UNSEEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_YAML_VERSION = re.compile(r"%YAML[ \t]+1\.[0-9][ \t]*(#[^\n]*)?(?=\n|\Z)")
_AFTER_COLON = ("", " ", "\t", "\n", ",", "]", "}")
_MOST_OPAQUE = 100


def read_yaml(source: Source, limits: Limits) -> Reading:
    """Walk every document of the file to its end."""
    if source.size > _MOST_BYTES:
        raise Unreadable(
            "has %d bytes; at most %d of YAML are read; `loads: bytes` takes it unread" % (source.size, _MOST_BYTES)
        )
    text = _text(source.read_at(0, source.size))
    walk = _Walk(Text(text), limits)
    documents = walk.stream()
    notes = ["%d documents" % documents] if documents > 1 else [] if documents else ["holds no document"]
    if walk.aliases:
        notes.append("%d aliases of %d anchors, none followed" % (walk.aliases, len(walk.anchors)))
    if walk.twice:
        notes.append("%d keys come twice in one mapping: most readers keep the last" % walk.twice)
    if not text.endswith("\n"):
        notes.append("does not end with a line end: nothing in YAML tells whether it was cut there")
    notes += walk.keys.notes()
    opaque, found = tuple(sorted(walk.opaque)), walk.tally.numbers()
    return Reading("yaml", source.size, 0, walk.scalars, walk.keys.names(), opaque, tuple(notes), found)


def _text(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("is not UTF-8 text (byte %d)" % error.start) from error
    for shape, what in ((_UNSEEN, "which YAML does not allow"), (_OTHER_BREAKS, "a line end to some readers only")):
        found = shape.search(text)
        if found:
            raise Unreadable("holds %s at character %d, %s" % (ascii(found.group()), found.start(), what))
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Walk:
    def __init__(self, text: Text, limits: Limits) -> None:
        self._text, self._limits, self._depth = text, limits, 0
        self.keys, self.tally = KeyList(limits), NumberTally()
        self.anchors: Set[str] = set()
        self.opaque: Set[str] = set()
        self.aliases = self.twice = self.scalars = 0
        self._named = ""

    def stream(self) -> int:
        """Walk the documents; return how many there are."""
        text, documents = self._text, 0
        text.skip_lines()
        if "\t" in text.text[text.text.rfind("\n", 0, text.at) + 1 : text.at]:
            raise text.fault("a tab where spaces should indent")
        while text.peek():
            self._directives()
            begun = text.text.startswith("---", text.at) and text.is_mark()
            if begun:
                text.at += 3
            elif documents or text.is_mark():
                raise text.fault("a document that does not begin with ---")
            self.anchors.clear()
            inline = begun and not text.skip_lines()
            if text.peek() and not text.is_mark():
                self._node(-1, inline)
                text.skip_lines()
            documents += 1
            if text.text.startswith("...", text.at) and text.is_mark():
                text.at += 3
                text.end_line()
                text.skip_lines()
            elif text.peek() and not text.is_mark():
                seen = legible(ascii(text.text[text.at : text.at + 20]))
                raise text.fault("%s stands outside of what is open" % seen)
        return documents

    def _directives(self) -> None:
        text, seen = self._text, False
        while text.peek() == "%" and not text.column:
            found = _YAML_VERSION.match(text.text, text.at)
            if not found:
                raise text.fault("a directive that is not %YAML 1.x: %TAG would give tags other names")
            text.at, seen = found.end(), True
            text.skip_lines()
        if seen and not text.is_mark():
            raise text.fault("a directive that no --- follows")

    def _node(self, indent: int, inline: bool, same: bool = False) -> None:
        """Walk a node whose lines are indented more than `indent`; `inline`: no block mapping may begin on this line.

        same: a sequence may start at `indent` itself, as it may below a key.
        """
        self._enter()
        text, begin = self._text, self._text.column
        tagged, again = self._properties(), 0
        if tagged and self._to_next_line(indent, same):
            inline, begin, tagged = False, text.column, False
            again = text.at
            self._properties()  # a key of a mapping that has properties of its own
            tagged = text.at > again
            again *= tagged
        if again and (self._is_over(indent, same) or text.peek() in ("|", ">")):
            raise text.fault("a value with two tags or two anchors")
        if self._is_over(indent, same):
            self.scalars += 1
        elif text.is_entry("-") and not tagged:
            if inline:
                raise text.fault("a sequence begins on the line of its key")
            self._sequence(text.column)
        elif text.is_entry("?"):
            if inline or tagged:
                raise text.fault("a key begins on the line of another one, or of a tag or an anchor")
            self._mapping(text.column, None)
        elif text.peek() and text.peek() in "|>":
            self._scalar_seen(text.block_scalar(indent))
        else:
            self._key_or_value(indent, inline, begin, bool(again))
        self._depth -= 1

    def _key_or_value(self, indent: int, inline: bool, begin: int, must_be_key: bool) -> None:
        text, began = self._text, self._text.at
        key = self._simple(indent)
        one_line = "\n" not in text.text[began : text.at]
        if text.skip_colon():
            if inline or not one_line:
                raise text.fault("a key where none may stand: its line has one already, or it is over several lines")
            self._mapping(begin, (key,))
        elif must_be_key:
            raise text.fault("a value with two tags or two anchors")
        else:
            self._scalar_seen(key)

    def _simple(self, indent: int, in_flow: bool = False) -> Optional[Scalar]:
        """Walk an alias, brackets, or a scalar."""
        text, sign = self._text, self._text.peek()
        if sign == "*":
            name = text.name("an alias")
            if name not in self.anchors:
                raise text.fault("the alias *%s has no anchor before it" % legible(name))
            self.aliases += 1
            return None
        if sign and sign in "[{":
            self._flow(sign, indent)
            return None
        if sign and sign in "'\"":
            return text.quoted(indent)
        return text.plain(indent, in_flow)

    def _mapping(self, column: int, first: Optional[Tuple[Optional[Scalar]]]) -> None:
        """Walk the keys at this column; `first` was read already, up to its colon."""
        text = self._text
        seen: Set[str] = set()
        top = self._depth == 1
        while True:
            if first is None and text.is_entry("?"):
                text.at += 1
                self._below(column, compact=True)
                text.skip_lines()
                if text.column == column and text.is_entry(":"):
                    text.at += 1
                    self._below(column, compact=True)
            else:
                if first is None:
                    self._properties()
                    line = text.at
                    first = (self._simple(column),)
                    if "\n" in text.text[line : text.at] or not text.skip_colon():
                        raise text.fault("a key without a colon behind it")
                self._key_seen(first[0], seen, top)
                self._below(column)
            first = None
            text.skip_lines()
            if not text.peek() or text.is_mark() or text.column < column:
                return
            if text.column > column:
                raise text.fault("is indented more than the key above it")
            if text.is_entry("-"):
                raise text.fault("a list entry among the keys of a mapping")

    def _below(self, column: int, compact: bool = False) -> None:
        """Walk the value behind a key's colon, or behind a ? or a - (which begin a nested block on their line)."""
        text = self._text
        if text.skip_lines():
            if self._is_over(column, not compact):
                self.scalars += 1
            else:
                self._node(column, False, not compact)
        else:
            self._node(column, not compact, not compact)
        if text.peek() not in ("", "\n") and not self._at_line_begin():
            text.end_line()

    def _at_line_begin(self) -> bool:
        text = self._text
        return not text.text[text.text.rfind("\n", 0, text.at) + 1 : text.at].strip(" ")

    def _sequence(self, column: int) -> None:
        text = self._text
        while True:
            text.at += 1
            self._below(column, compact=True)
            text.skip_lines()
            if not text.peek() or text.is_mark() or text.column < column:
                return
            if text.column > column:
                raise text.fault("is indented more than the list entry above it")
            if not text.is_entry("-"):
                return  # a key of the mapping whose list starts at its own column

    def _flow(self, opening: str, indent: int) -> None:
        """Walk the contents of brackets."""
        self._enter()
        text, closing = self._text, "]" if opening == "[" else "}"
        text.at += 1
        expects = True
        while True:
            text.skip_lines()
            sign = text.peek()
            if not sign or text.is_mark():
                raise text.fault("is cut short: %s is not closed" % opening)
            if sign == closing:
                text.at += 1
                break
            if sign == ",":
                if expects:
                    raise text.fault("a comma without a value before it")
                text.at, expects = text.at + 1, True
                continue
            if not expects:
                raise text.fault("%s where a comma or %s should stand" % (legible(ascii(sign)), closing))
            self._flow_entry(indent)
            expects = False
        self._depth -= 1

    def _flow_entry(self, indent: int) -> None:
        text, explicit = self._text, False
        if text.is_entry("?"):
            text.at, explicit = text.at + 1, True
            text.skip_lines()
        begin, scalars = text.at, self.scalars
        first = self._flow_value(indent)
        was_quoted = text.text[begin : begin + 1] in ("'", '"', "[", "{")
        here = text.at
        text.skip_lines()
        if text.peek() == ":" and (was_quoted or text.text[text.at + 1 : text.at + 2] in _AFTER_COLON):
            if not explicit and (text.at == begin or "\n" in text.text[begin : text.at]):
                raise text.fault("a colon behind no key, or behind one of several lines: readers differ about it")
            text.at += 1
            text.skip_lines()
            self.scalars = scalars
            self._key_seen(first, set(), self._depth == 2)
            self._scalar_seen(self._flow_value(indent))
        else:
            text.at = here
            self._scalar_seen(first)

    def _flow_value(self, indent: int) -> Optional[Scalar]:
        text = self._text
        self._properties()
        text.skip_lines()
        sign = text.peek()
        empty = not sign or sign in ",]}" or (sign == ":" and text.text[text.at + 1 : text.at + 2] in _AFTER_COLON)
        if empty:
            self.scalars += 1
            return None
        return self._simple(indent, True)

    def _properties(self) -> bool:
        """Read anchors and tags; return whether there was one."""
        text, begin, signs = self._text, self._text.at, ""
        while text.peek() and text.peek() in "&!":
            sign = text.peek()
            if sign in signs:
                raise text.fault("a value with two anchors or two tags")
            signs += sign
            if sign == "&":
                self.anchors.add(text.name("an anchor"))
            else:
                self._tag(text.tag())
            if text.peek() not in ("", " ", "\t", "\n", ",", "]", "}"):
                raise text.fault("an anchor or a tag without a space behind it")
            here = text.at
            text.skip_inline()
            if "\t" in text.text[here : text.at] and text.peek() not in ("", "\n", "#"):
                raise text.fault("a tab before a value: some readers take it for no space")
        if signs and text.peek() == "*":
            raise text.fault("an alias with an anchor or a tag of its own")
        return text.at > begin

    def _tag(self, tag: str) -> None:
        if not _STANDARD.fullmatch(tag) and len(self.opaque) < _MOST_OPAQUE:
            self.opaque.add("the YAML tag %s" % legible(tag, 200))

    def _to_next_line(self, indent: int, same: bool) -> bool:
        """Go to the next line if this one ends here and the node continues there."""
        text, here = self._text, self._text.at
        if text.peek() not in ("", "\n", "#") or not text.skip_lines():
            return False
        if self._is_over(indent, same):
            text.at = here
            return False
        return True

    def _is_over(self, indent: int, same: bool) -> bool:
        """Return whether no value is here: the text ends, or continues at or before `indent`."""
        text = self._text
        if text.peek() in ("", "\n") or text.is_mark():
            return True
        if not self._at_line_begin():
            return False
        return text.column <= indent and not (same and text.column == indent and text.is_entry("-"))

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > self._limits.max_json_depth:
            raise self._text.fault("nests deeper than %d" % self._limits.max_json_depth)

    def _key_seen(self, key: Optional[Scalar], seen: Set[str], top: bool) -> None:
        if key is None:
            return
        name = self._text.text[key.begin : key.end]
        name = name if key.plain else name[1:-1]
        self.twice += name in seen and name != "<<"
        seen.add(name)
        self._named = name
        if top:
            self.keys.add(name)

    def _scalar_seen(self, scalar: Optional[Scalar]) -> None:
        if scalar is None:  # an alias or brackets
            return
        self.scalars += 1
        if not scalar.plain or scalar.end - scalar.begin > 5:
            return
        found = _NOT_FINITE.fullmatch(self._text.text, scalar.begin, scalar.end)
        if found:
            is_nan = found.group().lower().endswith("nan")
            self.tally.add(self._named or "a value", int(is_nan), int(not is_nan))
