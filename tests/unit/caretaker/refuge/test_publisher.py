"""Results are published whole: every file is read back, the manifest comes last, and a failure has a class."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from leasehold.caretaker.refuge import publish_watch
from leasehold.caretaker.refuge.publish_watch import Publication
from leasehold.caretaker.refuge.publisher import publish_run
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.objects import bucket
from tests.support.fault_store import Asked, FaultStore, Reply, error

PREFIX = "results/toy-0123456789/"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultStore]:
    monkeypatch.setattr(bucket, "_FIRST_PAUSE_S", 0.0)
    with FaultStore() as found:
        yield found


@pytest.fixture
def run(store: FaultStore, tmp_path: Path) -> RunFolder:
    folder = RunFolder(str(tmp_path / "root" / "active" / "toy-0123456789"))
    for cell in ("a", "b"):
        os.makedirs(folder.out(cell))
        Path(folder.out(cell), "best.pt").write_bytes(cell.encode() * 300_000)
        Path(folder.out(cell), "scratch.tmp").write_text("not promised")
    job = {"publish": "s3://kept/results", "env": store.environ}
    plan = {"cells": ["a", "b"], "patterns": ["best.pt"], "plan_sha256": "p", "job": job}
    Path(folder.plan).write_text(json.dumps(plan))
    return folder


def outcome(folder: RunFolder) -> Dict[str, Any]:
    return read_json(folder.publish) or {}


def test_promised_files_lie_there_and_the_manifest_names_them(run: RunFolder, store: FaultStore) -> None:
    assert publish_run(run) == 0
    names = sorted(store.objects)
    assert names == [PREFIX + name for name in ("cells/a/best.pt", "cells/b/best.pt", "manifest.json")]
    sealed = json.loads(store.objects[PREFIX + "manifest.json"])
    for cell in ("a", "b"):
        (entry,) = sealed["cells"][cell]
        assert hashlib.sha256(store.objects["%scells/%s/best.pt" % (PREFIX, cell)]).hexdigest() == entry["sha256"]
    assert outcome(run)["files"] == 2 and outcome(run)["how"] == "copied and read back"


def test_the_manifest_is_put_after_every_file_was_read_back(run: RunFolder, store: FaultStore) -> None:
    publish_run(run)
    done = [(one.method, one.key[len(PREFIX) :]) for one in store.asked if one.key.startswith(PREFIX)]
    last = done.index(("PUT", "manifest.json"))
    assert [key for method, key in done[:last] if method == "GET"] == ["cells/a/best.pt", "cells/b/best.pt"]


def test_what_lies_there_already_is_not_sent_again(run: RunFolder, store: FaultStore) -> None:
    publish_run(run)
    store.asked.clear()
    assert publish_run(run) == 0
    assert [one for one in store.asked if one.method == "PUT"] == []
    assert outcome(run)["how"] == "was there already, read back"


def test_a_file_that_was_changed_there_is_sent_again(run: RunFolder, store: FaultStore) -> None:
    publish_run(run)
    store.objects[PREFIX + "cells/a/best.pt"] = b"x" * 300_000
    assert publish_run(run) == 0
    assert store.objects[PREFIX + "cells/a/best.pt"] == b"a" * 300_000


def test_a_store_that_keeps_other_bytes_is_lying_and_names_nothing(run: RunFolder, store: FaultStore) -> None:
    def spoilt(asked: Asked, reply: Reply) -> Reply:
        return reply._replace(body=reply.body[::-1] + b"") if asked.key.endswith("b/best.pt") and reply.body else reply

    Path(run.out("b"), "best.pt").write_bytes(b"not a palindrome")
    store.after = spoilt
    assert publish_run(run) == 2
    assert outcome(run)["class"] == "lying" and "other bytes are read back" in outcome(run)["problem"]
    assert PREFIX + "manifest.json" not in store.objects


@pytest.mark.parametrize(
    ("reply", "found"),
    [(error(403, "AccessDenied"), ("refused", False)), (error(507, "StorageFull"), ("full", False)),
     (error(503, "SlowDown"), ("unreachable", True))],
    ids=["denied", "full", "busy"],
)  # fmt: skip
def test_a_failure_has_a_class(run: RunFolder, store: FaultStore, reply: Reply, found: Tuple[str, bool]) -> None:
    store.order = lambda _: reply
    assert publish_run(run) == 2
    assert (outcome(run)["class"], outcome(run)["again"]) == found


# ---------------------------------------------------------------- the caretaker's side


class FakeWorker:
    """Ends at once with the next outcome."""

    def __init__(self, folder: RunFolder, outcomes: List[Optional[Dict[str, Any]]]) -> None:
        self.folder = folder
        self.outcomes = outcomes
        self.pid = 0

    def start(self, *_: object) -> None:
        self.pid = 1
        found = self.outcomes.pop(0)
        if found is not None:
            write_json(self.folder.publish, found)

    def busy(self) -> bool:
        return False


def watched(run: RunFolder, outcomes: List[Optional[Dict[str, Any]]]) -> List[Tuple[str, Dict[str, Any]]]:
    told: List[Tuple[str, Dict[str, Any]]] = []
    now = [0.0]
    plan = json.loads(Path(run.plan).read_text())
    found = Publication(run, plan, lambda kind, **facts: told.append((kind, facts)), lambda: now[0])
    found._worker = FakeWorker(run, outcomes)  # type: ignore[assignment]
    for _ in range(100):
        if found.step(lambda: None):
            return told
        now[0] += 7.0
    raise AssertionError(told)


def test_a_cut_is_tried_again_and_then_told_as_published(run: RunFolder) -> None:
    good = {"ok": True, "to": "s3://kept/results/toy", "how": "copied and read back", "files": 2, "bytes": 4}
    told = watched(run, [{"problem": "cut", "again": True}, None, good])
    assert [kind for kind, _ in told] == ["publish_started", "publish_retry", "publish_retry", "published"]
    assert told[-1][1]["files"] == 2


def test_a_store_that_stays_away_is_given_up_aloud(run: RunFolder) -> None:
    tries = len(publish_watch._AGAIN_S) + 1
    told = watched(run, [{"problem": "cut", "class": "unreachable", "again": True}] * tries)
    assert told[-1] == ("publish_failed", {"to": "s3://kept/results", "why": "cut", "class": "unreachable"})


def test_a_refusal_is_not_tried_again(run: RunFolder) -> None:
    told = watched(run, [{"problem": "no", "class": "refused", "again": False}])
    assert [kind for kind, _ in told] == ["publish_started", "publish_failed"]
