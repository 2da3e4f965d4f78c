"""What a receipt says of published results; nothing that the box says of itself counts as proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leasehold.kit.files.manifest import contents_sha256
from leasehold.lifecycle.records.published import note_of, published_facts
from leasehold.model.run.receipt import Receipt, receipt_from_dict

MANIFEST: dict[str, Any] = {"cells": {"main": [{"path": "a", "bytes": 1, "sha256": "0" * 64, "mtime_ns": 5}]}}
RECEIPT = Receipt("toy", "p", "m", ("main",), 1, 1, (), (), (), 0)


def facts(**said: Any) -> dict[str, Any]:
    return published_facts({"published": said}, MANIFEST)  # type: ignore[typeddict-item]


def test_the_same_files_are_equal() -> None:
    found = facts(to="s3://b/p", files=1, bytes=1, contents_sha256=contents_sha256(MANIFEST))
    assert found == {"to": "s3://b/p", "files": 1, "bytes": 1, "equal": True}
    (note,) = note_of(replace(RECEIPT, published=found))
    assert note.text.endswith("1 file in s3://b/p, the same as at home")


def test_other_files_are_told_loudly() -> None:
    (note,) = note_of(replace(RECEIPT, published=facts(to="s3://b/p", files=1, contents_sha256="x")))
    assert note.kind == "warning" and "NOT the same" in note.text


def test_a_failure_keeps_its_reason() -> None:
    (note,) = note_of(replace(RECEIPT, published=facts(to="s3://b/p", problem="denied\x1b[2J")))
    assert note.text == "not published to s3://b/p: denied"


@pytest.mark.parametrize("said", [None, {}, "x", {"files": 3}])
def test_a_run_that_published_nothing_has_the_old_receipt(said: Any) -> None:
    assert published_facts({"published": said}, MANIFEST) == {}
    assert "published" not in RECEIPT.as_dict()


def test_the_receipt_keeps_it() -> None:
    kept = replace(RECEIPT, published={"to": "s3://b", "files": 1, "bytes": 1, "equal": True})
    assert receipt_from_dict(kept.as_dict()) == kept
