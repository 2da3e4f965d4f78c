"""What is not home when a box is given up, as lines."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.kit.events.teardown_lines import not_home_lines, where_results_are


def _lost(cell: str = "a", **more: Any) -> Dict[str, Any]:
    return {"run": "toy-1", "cell": cell, "given_up": False, "files": 0, "bytes": 0, "paths": [], **more}


def test_everything_is_home_only_if_receipts_cover_all_cells() -> None:
    assert where_results_are(True, [], deletes=True) == "everything is home"
    assert where_results_are(False, [], deletes=True) == "not every promised result is home"


def test_a_cell_that_was_given_up_is_named_with_its_files() -> None:
    lost = _lost(given_up=True, files=2, bytes=1500, paths=["a/model.pt", "a/metrics.json"])
    said = where_results_are(False, [lost], deletes=True)
    assert said == "given up: cell a of toy-1; 2 files, 1.5 kB, deleted with the box: a/model.pt, a/metrics.json"


def test_a_cell_without_files_on_the_box_says_so() -> None:
    assert list(not_home_lines([_lost()], deletes=True)) == ["not home: cell a of toy-1; nothing of it is on the box"]


def test_files_of_no_artifact_are_counted_and_the_first_named() -> None:
    lost = _lost(cell="", run="", files=2000, bytes=7, paths=["\x1b[2J%d" % n for n in range(9)])
    (line,) = not_home_lines([lost], deletes=False)
    assert line.startswith("not home, as no artifact names them: 2,000 files, 7 B, left on the box: ")
    assert line.endswith(", …") and "\x1b" not in line
    assert where_results_are(True, [lost], deletes=False) == "every promised result is home; " + line
