"""A box behind ssh is never booked on a platform that is this very machine; one that was can be corrected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.ledger import box_book
from leasehold.ledger.store import Ledger
from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, ONE_SYSTEM, Front, front
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far") as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path, bed.environment) as person:
        person.write("train.py", "import os\nopen(os.environ['LEASE_OUT'] + '/result.json', 'w').write('{}')\n")
        person.job()
        yield person


@pytest.mark.parametrize("platform", ["rehearsal", "local", "mine"])
def test_it_is_refused_where_the_box_is_added_and_where_it_is_launched_on(me: Front, platform: str) -> None:
    extended = {"extends": "rehearsal", "title": "a cloud", "reached": "ssh"}
    me.write(".leasehold/profiles/mine.yaml", json.dumps(extended))
    added = me.lease("box", "add", "g", "--ssh", "box", "--platform", platform)
    assert added.code == 2 and "error[box.platform_here]" in added.said, added.said
    assert json.loads(me.lease("box", "list", "--json").out)["boxes"] == []
    run = me.lease("run", "--on", "ssh:box", "--platform", platform, *NO_SMOKE)
    assert run.code == 2 and "error[box.platform_here]" in run.said
    assert me.events("lease_opened") == []


def test_one_that_was_stored_is_pulled_corrected_and_closed(me: Front, bed: SshBed) -> None:
    assert me.lease("box", "add", "g", "--ssh", "box", "--price", "1USD/h").code == 0
    ledger = Ledger(me.home / "ledger.sqlite")
    entry = box_book.find(ledger, "g")
    assert entry is not None
    box_book.record(ledger, replace(entry, platform="rehearsal", platform_by="person"), replace=True)
    ledger.close()
    done = me.lease("run", "--on", "g", *NO_SMOKE)
    assert done.code == 0, done.said
    refused = me.lease("down", "g", "--rehearsal")
    assert refused.code == 2 and "lease box add g --replace --platform" in refused.said
    mended = me.lease("box", "add", "g", "--replace", "--platform", "generic-ssh")
    assert mended.code == 0, mended.said
    (lease,) = json.loads(me.lease("status", "--json").out)["leases"]
    assert (lease["lease"], lease["platform"]) == ("g-1", "generic-ssh")
    plan = me.lease("down", "g", "--plan", *ONE_SYSTEM)
    assert plan.code == 0, plan.said
    bed.box.stop()
    assert "g-1 is closed" in Session(me, "unused").type("lease down g --stopped", ("type exactly", "stopped g-1"))
