"""What is said of files that no reader has read."""

from __future__ import annotations

from leasehold.model.run.unread_files import reason, summary


def test_files_without_a_reader_and_files_taken_as_bytes_are_told_apart() -> None:
    said = summary(["a.pt2", "b.pt2", "c.onnx", "d"])
    assert said == "4 files not read (no reader: 2 .pt2, 1 no suffix; the job loads as bytes: 1 .onnx)"
    assert summary([]) == ""


def test_the_reason_names_the_ending() -> None:
    assert reason("x/model.pt2") == "no reader for .pt2"
    assert reason("x/LICENSE") == "no reader for a name without a suffix"
    assert reason("x/table.parquet") == "the job loads it as bytes"
