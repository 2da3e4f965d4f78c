"""When signs contradict a platform, and when they say nothing."""

from __future__ import annotations

import pytest

from leasehold.facts import profiles
from leasehold.facts.profiles import SHIPPED
from leasehold.gates.start.platform_signs import SignReadings, judge_signs
from leasehold.model.platform.platform_signs import match, pointed_to, read_address
from leasehold.model.run.verdict import Outcome

PLATFORMS = SHIPPED.signs()
MOUNT, TURBO, POD = ("mount", "/root/autodl-tmp"), ("file", "/etc/network_turbo"), ("env", "RUNPOD_POD_ID")
NOTHING: dict[tuple[str, str], str] = {}


def judged(platform: str, read: dict[tuple[str, str], str], *, priced: bool = True, chosen: bool = False) -> str:
    found = judge_signs(profiles.load(platform), SignReadings(PLATFORMS, read, "gpu1", priced, chosen))
    if any(finding.outcome is Outcome.REFUSED for finding in found):
        return "refused"
    return "warned" if any(finding.hint for finding in found) else "passed"


@pytest.mark.parametrize(
    ("platform", "read", "verdict"),
    [
        ("autodl", {MOUNT: "yes", TURBO: "yes"}, "passed"),
        ("autodl", {MOUNT: "no"}, "refused"),
        ("autodl", {MOUNT: "unknown"}, "passed"),
        ("autodl", NOTHING, "passed"),
        ("autodl", {TURBO: "no", MOUNT: "yes"}, "passed"),
        ("autodl-pro", {TURBO: "yes", MOUNT: "no"}, "passed"),
        ("autodl-pro", {TURBO: "yes", MOUNT: "yes"}, "refused"),
        ("runpod", {POD: "yes"}, "passed"),
        ("runpod-volume", {POD: "yes"}, "passed"),
        ("runpod", {POD: "no"}, "passed"),
        ("runpod", {MOUNT: "yes"}, "refused"),
        ("generic-ssh", {POD: "yes"}, "refused"),
        ("generic-ssh", {POD: "no", MOUNT: "no"}, "passed"),
        ("local", {POD: "yes"}, "passed"),
        ("rehearsal", {POD: "yes"}, "passed"),
    ],
)
def test_a_priced_run_is_judged_by_what_was_seen(platform: str, read: dict[tuple[str, str], str], verdict: str) -> None:
    assert judged(platform, read) == verdict
    assert judged(platform, read, priced=False) == {"refused": "warned"}.get(verdict, verdict)


def test_a_choice_counts_only_for_a_platform_that_claims_nothing() -> None:
    assert judged("generic-ssh", {POD: "yes"}, chosen=True) == "passed"
    assert judged("lambda", {POD: "yes"}, chosen=True) == "refused"


def test_an_address_points_to_its_platforms_and_an_unknown_one_to_none() -> None:
    def names(host: str, user: str = "root") -> list[str]:
        return [found.platform for found in pointed_to(PLATFORMS, read_address(PLATFORMS, host, user))]

    assert names("Connect.WestB.SeetaCloud.com") == ["autodl", "autodl-pro"]
    assert names("connect.seetacloud.com.evil.example") == []
    assert names("203.0.113.7") == [] and names("", "") == []


def test_a_mount_tells_two_like_platforms_apart() -> None:
    address = read_address(PLATFORMS, "connect.westb.seetacloud.com", "root")
    assert [found.platform for found in pointed_to(PLATFORMS, {**address, MOUNT: "yes"})] == ["autodl"]
    assert [found.platform for found in pointed_to(PLATFORMS, {**address, MOUNT: "no"})] == ["autodl-pro"]


@pytest.mark.parametrize("known", PLATFORMS, ids=lambda known: known.platform)
def test_nothing_read_contradicts_nothing(known) -> None:
    assert not match(known, NOTHING).contradicted and not match(known, NOTHING).seen
