"""json, jsonl and csv: what passes, what is refused, and where the refusal points."""

from __future__ import annotations

import json

import pytest

from leasehold.kit.readers import Limits

# ---------------------------------------------------------------- json


@pytest.mark.parametrize(
    "text",
    [
        '{"loss": 0.5, "deep": [[], {}, [1, -2.5e-3, true, false, null]]}',
        ' \n[1, "é 训练", "\\u00e9\\n\\"\\\\", ""]\n',
        "12.5",
        '"text"',
        "-0",
        "null",
    ],
)
def test_json_documents_are_read(reading_of, text):
    assert reading_of("json", text).kind == "json"


@pytest.mark.parametrize(
    "text",
    [
        " \n ",
        "{",
        '{"a": 1',
        '{"a": 1}}',
        '{"a" 1}',
        '{"a": 1,}',
        "[1,]",
        "[1 2]",
        "[,]",
        "{1: 2}",
        "{]",
        "01",
        "1.",
        "1e",
        "+1",
        "--1",
        "tru",
        "True",
        "'a'",
        '"a',
        '"\t"',
        '"\\x"',
        '"\\u12g4"',
        "nan",
        "1 2",
        "[1] [2]",
        '{"a": 1}\x00',
    ],
)
def test_text_that_is_no_json_is_refused(refusal_of, text):
    assert "JSON" in refusal_of("json", text)
    with pytest.raises(ValueError, match=r".*"):  # the standard parser agrees
        json.loads(text)


def test_json_keys_are_the_top_level_ones_once_each(reading_of):
    reading = reading_of("json", '{"loss": {"inner": 1}, "acc\\u0041": 2, "loss": 3}')
    assert reading.keys == ("loss", "accA")


def test_json_nan_and_infinity_are_noted(reading_of):
    assert "NaN" in reading_of("json", '{"loss": NaN, "x": [-Infinity]}').notes[0]
    assert reading_of("json", '{"loss": "NaN"}').notes == ()


def test_json_byte_order_mark_is_tolerated(reading_of):
    assert reading_of("json", b'\xef\xbb\xbf{"a": 1}').keys == ("a",)


def test_json_that_is_not_utf8_names_the_byte(refusal_of):
    assert "byte 7" in refusal_of("json", b'{"a": "\xff"}')


def test_json_nested_deeper_than_the_limit_is_refused(reading_of, refusal_of):
    assert reading_of("json", "[" * 128 + "]" * 128)
    assert "deeper than 128" in refusal_of("json", "[" * 129 + "]" * 129)
    assert "deeper" in refusal_of("json", "[" * 3_000_000)


def test_json_tokens_may_straddle_the_pieces_it_is_read_in(reading_of):
    piece = 1024 * 1024
    for token in ('"quoted \\" text"', "-12.5e+10", "true", "NaN"):
        for cut in range(1, len(token) + 1):
            text = "[" + " " * (piece - 1 - cut) + token + "]"
            assert reading_of("json", text)


def test_json_string_without_end_is_refused_within_the_limit(refusal_of):
    limits = Limits(max_line_bytes=1024 * 1024)
    assert "longer than" in refusal_of("json", '["' + "a" * 4_000_000, limits)
    assert "longer than" in refusal_of("json", '["' + "\\n" * 2_000_000, limits)


def test_json_number_of_a_million_digits_takes_no_quadratic_time(reading_of):
    assert reading_of("json", "[" + "7" * 1_000_000 + "]")


def test_json_key_names_are_made_fit_for_a_terminal(reading_of):
    assert reading_of("json", '{"\\u001b[31mred\\ud800": 1}').keys == ("\\x1b[31mred\\ud800",)


def test_json_keys_listed_are_bounded_and_the_cut_is_noted(reading_of):
    reading = reading_of("json", json.dumps({f"k{i}": i for i in range(20)}), Limits(max_keys=5))
    assert len(reading.keys) == 5
    assert "first 5" in reading.notes[0]


def test_an_empty_file_is_refused_whatever_its_kind(refusal_of):
    for kind in ("json", "jsonl", "csv", "npy", "npz", "safetensors", "torch", "bytes"):
        assert "empty" in refusal_of(kind, b"")


# ---------------------------------------------------------------- jsonl


def test_jsonl_records_are_read_and_blank_lines_skipped(reading_of):
    reading = reading_of("jsonl", '{"step": 1}\n\n{"step": 2, "loss": 0.1}\r\n[]\n')
    assert reading.keys == ("step", "loss")
    assert reading.notes == ()


def test_jsonl_torn_last_line_is_refused_by_its_number(refusal_of):
    reason = refusal_of("jsonl", '{"step": 1}\n{"step": 2}\n{"st')
    assert "line 3" in reason
    assert "torn" in reason


def test_jsonl_broken_line_in_the_middle_is_refused_by_its_number(refusal_of):
    reason = refusal_of("jsonl", '{"step": 1}\n{"step": \n{"step": 3}\n')
    assert "line 2" in reason
    assert "torn" not in reason


def test_jsonl_without_a_last_line_end_is_noted(reading_of):
    assert "no line end" in reading_of("jsonl", '{"step": 1}\n{"step": 2}').notes[0]


def test_jsonl_without_records_is_refused(refusal_of):
    assert "no record" in refusal_of("jsonl", "\n \n\r\n")


def test_jsonl_line_longer_than_the_limit_is_refused(refusal_of):
    limits = Limits(max_line_bytes=1000)
    assert "line 2" in refusal_of("jsonl", '{"a": 1}\n"' + "a" * 2000 + '"\n', limits)
    assert "line 1" in refusal_of("jsonl", '"' + "a" * 3_000_000, limits)


def test_jsonl_deep_line_is_refused_without_exhausting_the_stack(refusal_of):
    assert "line 1" in refusal_of("jsonl", "[" * 500_000 + "\n")


def test_jsonl_line_that_is_not_utf8_is_refused_by_its_number(refusal_of):
    assert "line 2" in refusal_of("jsonl", b'{"a": 1}\n"\xff"\n')


def test_jsonl_number_of_a_million_digits_takes_no_quadratic_time(reading_of):
    assert reading_of("jsonl", '{"n": ' + "7" * 1_000_000 + "}\n")


# ---------------------------------------------------------------- csv


def test_csv_with_header_and_rows_is_read(reading_of):
    reading = reading_of("csv", 'epoch,loss,"a, b"\n1,0.5,"two\nlines"\n\n2,0.4,""\n')
    assert reading.keys == ("epoch", "loss", "a, b")
    assert reading.notes == ()


def test_csv_pandas_index_column_without_name_is_read(reading_of):
    assert reading_of("csv", ",loss\r\n0,0.5\r\n").keys == ("", "loss")


def test_csv_row_of_another_width_is_refused_by_its_number(refusal_of):
    reason = refusal_of("csv", "a,b\n1,2\n3,4\n5\n")
    assert "row 3" in reason
    assert "line 4" in reason


def test_a_csv_of_a_header_alone_is_read_and_said(reading_of):
    reading = reading_of("csv", "a,b\n")
    assert (reading.keys, reading.notes) == (("a", "b"), ("has a header of 2 columns and no row",))


def test_a_header_without_its_line_end_is_cut_short(refusal_of):
    assert "ends inside its header" in refusal_of("csv", "epoch,lo")


def test_csv_without_header_is_refused(refusal_of):
    assert "no header" in refusal_of("csv", "\n1,2\n")


def test_csv_quote_left_open_is_refused(refusal_of):
    assert "line 2" in refusal_of("csv", 'a,b\n1,"2\n')


def test_csv_with_nul_bytes_of_a_crash_is_refused(refusal_of):
    assert "NUL" in refusal_of("csv", b"a,b\n1,2\n\0\0\0\0\n")


def test_csv_without_a_last_line_end_is_noted(reading_of):
    assert "no line end" in reading_of("csv", "a,b\n1,2").notes[0]


def test_csv_value_that_spans_endless_lines_is_refused_within_the_limit(refusal_of):
    content = 'a,b\n1,"' + "x\n" * 500_000
    assert "longer than" in refusal_of("csv", content, Limits(max_line_bytes=100_000))


def test_csv_value_larger_than_the_modules_default_is_read(reading_of):
    assert reading_of("csv", "a,b\n1," + "x" * 300_000 + "\n").keys == ("a", "b")


def test_csv_that_is_not_utf8_is_refused_by_its_line(refusal_of):
    assert "line 2" in refusal_of("csv", b"a,b\n\xff,2\n")
