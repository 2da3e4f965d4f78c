"""Results that are home are not nagged about for ever: on a free box not at all, else until their lease is closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, running, ssh_bed
from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh

TRAIN = """
import json, os
print("step 1/1 loss 0.5", flush=True)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far") as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    """Somebody who wants to be reminded of a meter, over a channel that is not used within 15 minutes."""
    with front(tmp_path, bed.environment) as person:
        person.write("train.py", TRAIN)
        person.job(notify={"on": ["meter"]})
        assert person.lease("notify", "add", "webhook", "http://127.0.0.1:9/never").code == 0
        yield person


def nagging(folder: Path) -> bool:
    return bool(running("nag", str(folder)))


def test_a_free_box_ends_its_last_process_once_the_results_are_home(me: Front) -> None:
    begun = me.lease("run", "--on", "local", "--detach")
    assert begun.code == 0, begun.said
    folder = me.box_root / "active" / begun.out.strip()
    assert eventually(lambda: nagging(folder)), "it waits for somebody to take the results"
    pulled = me.lease("pull", "toy")
    assert pulled.code == 0, pulled.said
    assert eventually(lambda: not nagging(folder)), "the results are home, and nothing bills"


def test_a_box_that_bills_nags_on_until_its_closed_lease_is_heard_of(me: Front, bed: SshBed) -> None:
    added = me.lease("box", "add", "gpu1", "--ssh", "box", "--price", "1USD/h")
    assert added.code == 0, added.said
    done = me.lease("run", "--on", "gpu1", *NO_SMOKE)
    assert done.code == 0, done.said
    (folder,) = (bed.root / "active").iterdir()
    assert eventually(lambda: nagging(folder))
    bed.box.stop()  # the way there is lost; the machine is not
    Session(me, "unused").type("lease down gpu1 --stopped", ("type exactly", "stopped gpu1-1"))
    bed.box.start()
    assert nagging(folder) and (folder / "pulled.json").exists(), "home is told, and the meter is not forgotten"
    again = me.lease("run", "--on", "gpu1", "--again", "--detach", *NO_SMOKE)
    assert again.code == 0, again.said
    assert (folder / "hush").exists()
    assert eventually(lambda: not nagging(folder))
