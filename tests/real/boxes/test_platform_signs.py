"""An AutoDL box that is reached by a plain address shows what it is: it is not booked or run on as a bare SSH box."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.autodl_bed import DATA, AutodlBox, AutodlCloud
from tests.support.front import Done, Front, front
from tests.support.screens import Session

MOUNT = f"{DATA} is a mount"
TURBO = "/etc/network_turbo exists"


@pytest.fixture
def box(autodl: AutodlCloud) -> AutodlBox:
    """Give an instance."""
    return autodl.rent()


@pytest.fixture
def me(autodl: AutodlCloud, tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job that writes one file."""
    with front(tmp_path / "me", autodl.environment) as person:
        person.job(run="echo {} > $LEASE_OUT/result.json", smoke="echo {} > $LEASE_OUT/result.json")
        yield person


def good(done: Done) -> str:
    assert done.code == 0, done.said
    return done.said


def booked(me: Front) -> dict[str, str]:
    return dict(json.loads(me.lease("box", "show", "gpu1", "--json").out))


def without_terminal(me: Front, *words: str) -> Done:
    return me.lease(*words, prefix=["setsid", "--wait"])


def test_signs_on_the_box_ask_for_its_platform(me: Front, box: AutodlBox) -> None:
    done = without_terminal(me, "box", "add", "gpu1", box.ssh_line)
    assert done.code == 2 and "error[box.platform_unnamed]" in done.said
    assert MOUNT in done.said and TURBO in done.said and "--platform autodl;" in done.said, "Pro has no such mount"
    assert json.loads(me.lease("box", "list", "--json").out) == {"boxes": []}
    Session(me, "signs").type(f"lease box add gpu1 '{box.ssh_line}'", (r"platform \[autodl\]: ", ""))
    assert (booked(me)["platform"], booked(me)["root"]) == ("autodl", f"{DATA}/leasehold")


def test_a_wrong_platform_warns_at_first_contact_and_refuses_when_priced(me: Front, box: AutodlBox) -> None:
    said = good(me.lease("box", "add", "gpu1", box.ssh_line, "--platform", "autodl-pro", "--price", "2CNY/h"))
    assert f"its signs contradict that: {MOUNT}" in said
    done = me.lease("run", "--on", "gpu1")
    assert done.code == 3 and "the audit gate refused" in done.said and MOUNT in done.said
    assert "lease box add gpu1 --replace --platform autodl" in done.said


def test_a_priced_run_on_a_bare_address_is_refused_then_lands_on_data(me: Front, box: AutodlBox) -> None:
    on = f"ssh:{box.name}"
    done = without_terminal(me, "run", "--on", on, "--price", "2CNY/h")
    assert done.code == 3 and "the audit gate refused" in done.said
    assert MOUNT in done.said and TURBO in done.said and f"lease run --on {on} --platform autodl" in done.said
    good(me.lease("run", "--on", on, "--price", "2CNY/h", "--platform", "autodl"))
    assert [path.name[:4] for path in box.behind(f"{DATA}/leasehold/active").iterdir()] == ["toy-"]
    [opened] = me.events("lease_opened")
    assert (opened["platform"], opened["root"]) == ("generic-ssh", "")
    [rebooked] = me.events("lease_rebooked")
    assert (rebooked["platform"], rebooked["root"]) == ("autodl", f"{DATA}/leasehold")
    good(me.lease("run", "--on", on, "--price", "2CNY/h"))  # the identical command needs no word of the platform


def test_a_bare_ssh_box_by_choice_runs_with_a_price(me: Front, box: AutodlBox) -> None:
    on = f"ssh:{box.name}"
    said = good(me.lease("run", "--on", on, "--price", "2CNY/h", "--platform", "generic-ssh"))
    assert f"{on} is on generic-ssh from now on, as you stated" in said
    assert "contradict" not in said


def test_first_contact_with_an_address_is_told_once(me: Front, box: AutodlBox) -> None:
    on = f"ssh:{box.name}"
    first = good(me.lease("run", "--on", on, "--platform", "autodl"))
    assert "what AutoDL, ordinary instance does to money and data:" in first
    assert "if it is stopped today: 20" in first, "a clock has its day"
    assert "register your SSH key once in the console" in first
    assert "facts: confirmed 20" in first
    assert "does to money and data" not in good(me.lease("run", "--on", on, "--again"))
