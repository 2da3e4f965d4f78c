"""The two-box probe on simulated regions: one disk, two disks, or nobody there to say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.facts import profiles
from leasehold.gates.start.sharing import Sight
from leasehold.lifecycle.box.shared_disk import Company, probe_sharing
from leasehold.lifecycle.machine.box import Box
from leasehold.transport.openssh import SshAddress, SshTransport
from tests.support.autodl_bed import SHARED, AutodlBox, AutodlCloud
from tests.support.front import Done, Front, front


@pytest.fixture
def me(autodl: AutodlCloud, tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job."""
    with front(tmp_path / "me", autodl.environment) as person:
        person.write("train.py", "print('hello')\n")
        person.job(checkpoint={"size": "1MB"})  # without it the size of the durable copy is unknown
        yield person


def known(me: Front, name: str, box: AutodlBox, platform: str = "autodl") -> None:
    """Write a box into the book."""
    done = me.lease("box", "add", name, box.ssh_line, "--platform", platform)
    assert done.code == 0, done.said


def audit(me: Front, *words: str) -> Done:
    """Audit the first box."""
    return me.lease("check", "audit", "--on", "a", *words)


def sharing(done: Done) -> str:
    """Pick the line about the shared disk from a verdict."""
    return next(line for line in done.said.splitlines() if SHARED in line and ("share" in line or "proven" in line))


def left(box: AutodlBox) -> list[str]:
    """List what lies on the shared disk of a box's region."""
    return [path.name for path in box.region.shared.iterdir()]


def test_two_boxes_of_one_region_see_the_same_bytes_and_no_note_stays(autodl: AutodlCloud, me: Front) -> None:
    first, second = autodl.rent(), autodl.rent()
    known(me, "a", first)
    known(me, "b", second)
    done = audit(me, "--with", "b")
    assert (done.code, done.out) == (0, "audit: passed\n"), done.said
    assert sharing(done).startswith(f"  ok  {SHARED} (file storage) is shared: a note left by a was read on b")
    assert left(first) == []
    (judged,) = me.events("gate_judged")
    assert any("the same bytes" in finding["what"] for finding in judged["findings"])


def test_boxes_of_two_regions_are_refused_with_the_region_named(autodl: AutodlCloud, me: Front) -> None:
    first, second = autodl.rent(autodl.region()), autodl.rent(autodl.region())
    known(me, "a", first)
    known(me, "b", second)
    done = audit(me, "--with", "b", "--json")
    assert done.code == 3
    verdict = json.loads(done.out)
    (against,) = [finding for finding in verdict["findings"] if finding["outcome"] != "passed"]
    assert against["outcome"] == "refused"
    assert f"{SHARED} (file storage) is not shared: b does not see a note that a left" in against["what"]
    assert "same region?" in against["hint"] and "another region sees another disk" in against["hint"]
    assert left(first) == left(second) == []


def test_a_second_box_that_is_off_leaves_it_unknown_and_refuses_nothing(autodl: AutodlCloud, me: Front) -> None:
    first, second = autodl.rent(), autodl.rent()
    known(me, "a", first)
    known(me, "b", second)
    second.power_off()
    done = audit(me, "--with", "b")
    assert (done.code, done.out) == (0, "audit: unknown\n"), done.said
    assert "b could not be asked: nothing listens at b" in sharing(done)
    assert left(first) == []


def test_one_machine_under_two_names_proves_nothing(autodl: AutodlCloud, me: Front) -> None:
    box = autodl.rent()
    known(me, "a", box)
    alias = me.lease("box", "add", "b", "--ssh", box.name, "--platform", "autodl")
    assert alias.code == 0, alias.said
    done = audit(me, "--with", "b")
    assert done.out == "audit: unknown\n"
    assert "a and b are one machine" in sharing(done)


def test_a_full_shared_disk_is_said_by_the_box_that_could_not_write(autodl: AutodlCloud, me: Front) -> None:
    region = autodl.region(fs_inodes=10)
    first, second = autodl.rent(region), autodl.rent(region)
    known(me, "a", first)
    known(me, "b", second)
    for number in range(9):
        (region.shared / str(number)).touch()
    done = audit(me, "--with", "b")
    assert done.code == 3
    assert "a could not leave a note" in done.said and "No space left on device" in done.said


def test_without_company_autodl_says_nothing_of_sharing(autodl: AutodlCloud, me: Front) -> None:
    known(me, "a", autodl.rent())
    done = audit(me)
    assert (done.code, done.out) == (0, "audit: passed\n")
    assert "shared" not in done.said and "proven" not in done.said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["audit", "--on", "a", "--with", "a"], "audit.same_box"),
        (["audit", "--on", "a", "--with", "c"], "audit.other_platform"),
        (["audit", "--on", "c", "--with", "d"], "audit.nothing_shared"),
        (["env", "--on", "a", "--with", "c"], "gate.only_audit"),
        (["audit", "--on", "a", "--with", "nobody"], "box.unknown"),
    ],
)
def test_company_that_makes_no_sense_is_said_before_anybody_is_called(me: Front, words: list[str], code: str) -> None:
    for port, (name, platform) in enumerate([("a", "autodl"), ("c", "generic-ssh"), ("d", "generic-ssh")], 1):
        address = ["--ssh", f"root@127.0.0.1:{port}", "--no-contact"]
        assert me.lease("box", "add", name, *address, "--platform", platform).code == 0
    assert f"error[{code}]" in me.lease("check", *words).said


def test_a_tier_that_is_a_mere_folder_on_the_second_box_wants_the_mount(
    autodl: AutodlCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tier that the image has as a plain folder, each box sees its own."""
    first, second = autodl.rent(), autodl.rent()
    for variable, value in autodl.environment.items():
        monkeypatch.setenv(variable, value)
    profile = profiles.load("autodl")
    tiers = tuple(replace(tier, path="/mnt") if tier.shared else tier for tier in profile.tiers)
    here, there = (
        Box(
            box.name,
            "autodl",
            "/root/autodl-tmp/leasehold",
            SshTransport(SshAddress.parse(box.name), tmp_path / box.name),
        )
        for box in (first, second)
    )
    with here.connect() as engine:
        (reading,) = probe_sharing(engine, Company(here.name, there, wait_s=0.2), replace(profile, tiers=tiers))
    assert (reading.sight, reading.mounted_there) == (Sight.ABSENT, False)
    assert list(first.behind("/mnt").iterdir()) == []
