"""Text from a box: no escape sequence or control character reaches a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.kit.text.safe_text import one_line, plain
from tests.support.examples import MANY

SEQUENCES = st.sampled_from(
    ["\x1b[31m", "\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$r\x1b\\", "\x1b(B", "\x1b", "\x9b1m"]
    + ["\x1b[", "\x1b]", "[31m", "\r", "\r\n", "\n", "\t", "\x00", "\x7f", "\x85", "\x07", "\\", "\u202e", "\x1b[?25l"]
)
HOSTILE = st.lists(SEQUENCES | st.text(max_size=4), max_size=10).map("".join)
PRINTABLE = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=30)


def controls(text):
    return {char for char in text if unicodedata.category(char) == "Cc"}


@MANY
@given(HOSTILE)
@example("\x1b\x1b[0m[31m")
@example("\x1b]\x1b[31m")
@example("\x1b[\x1b[31m31m")
def test_no_escape_or_control_survives_but_newline_and_tab(text):
    assert controls(plain(text)) <= {"\n", "\t"}


@MANY
@given(HOSTILE)
def test_plain_text_stays_plain(text):
    assert plain(plain(text)) == plain(text)


@MANY
@given(PRINTABLE)
def test_ordinary_text_is_not_touched(text):
    assert plain(text) == text


@MANY
@given(PRINTABLE, SEQUENCES.filter(lambda s: s.startswith("\x1b[") and s.endswith("m")))
def test_colours_vanish_and_the_text_stays(text, colour):
    assert plain(colour + text + "\x1b[0m") == text


@MANY
@given(st.lists(st.text("ab \x1b]P^_X0;", max_size=8), max_size=5))
def test_no_line_hides_another(lines):
    """An unfinished title or string sequence ends with its line: the log after it is evidence."""
    assert plain("\n".join(lines)).count("\n") == max(0, len(lines) - 1)


def test_a_line_after_an_unfinished_title_is_shown():
    assert plain("\x1b]0;title\nloss 0.25\n") == "\nloss 0.25\n"


@pytest.mark.parametrize(
    "drawn, shown",
    [
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r50%\r100%\r\n", "100%\n"),
        ("50%\r", "50%"),
        ("\r50%", "50%"),
        ("\x1b[2K\r 7/8 it\x1b[A\r 8/8 it\nend", " 8/8 it\nend"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\r\r\r", ""),
        ("one\n\ntwo", "one\n\ntwo"),
    ],
)
def test_of_a_progress_bar_the_last_drawing_is_kept(drawn, shown):
    assert plain(drawn) == shown


@MANY
@given(HOSTILE)
def test_one_line_is_one_printable_line(text):
    shown = one_line(text)
    assert shown.isprintable()
    shown.encode("utf-8")


@MANY
@given(st.text(st.characters(blacklist_characters="\x1b") | st.characters(whitelist_categories=("Cs",)), max_size=20))
def test_names_with_odd_characters_show_what_they_are(name):
    shown = one_line(name)
    assert shown.isprintable()
    shown.encode("utf-8")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("a\nb", "a\\nb"),
        ("a\tb", "a\\tb"),
        ("caf\udce9", "caf\\udce9"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("训练 结果", "训练 结果"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b", "\\x1b"),
    ],
)
def test_controls_in_a_name_become_visible(name, shown):
    assert one_line(name) == shown
