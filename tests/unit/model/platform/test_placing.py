"""A profile on one box: the tier of our folder, and the durable folder that a person named."""

from __future__ import annotations

import pytest

from leasehold.facts import profiles
from leasehold.lifecycle.project.resolve import environment_of
from leasehold.model.platform.placing import UNKNOWN_TIER, copies_to, placed


@pytest.mark.parametrize(
    "platform, root, tier",
    [
        ("runpod", "", "volume disk"),
        ("runpod", "/workspace/lease", "volume disk"),
        ("runpod", "/workspace-not/lease", "container disk"),
        ("runpod", "/root/lease", "container disk"),
        ("autodl", "/root/autodl-fs/x", "file storage"),
        ("vastai", "/root", "container disk"),
        ("generic-ssh", "/mnt/disk/lease", "system disk"),
        ("slurm", "/scratch/me/lease", "shared file system"),
        ("featurize", "/mnt/x", UNKNOWN_TIER),
        ("autodl", "~/lease", UNKNOWN_TIER),
    ],
)
def test_our_folder_gives_its_tier_the_state_role(platform: str, root: str, tier: str) -> None:
    here = placed(profiles.load(platform), root)
    assert here.state_tier.name == tier
    assert sum("state" in one.roles for one in here.tiers) == 1


def test_every_ending_verb_counts_as_deleting_an_unknown_tier() -> None:
    here = placed(profiles.load("autodl-pro"), "/mnt/x")
    for verb in here.verbs:
        assert (UNKNOWN_TIER in verb.deletes) is (verb.ends != "nothing")
        assert (UNKNOWN_TIER in verb.keeps) is (verb.ends == "nothing")


def test_a_named_path_is_that_of_the_platforms_durable_tier() -> None:
    here = placed(profiles.load("lambda"), "/home/ubuntu/leasehold", "/lambda/nfs/data")
    assert here.durable_tier is not None and here.durable_tier.name == "filesystem"
    assert copies_to(here) == "/lambda/nfs/data/leasehold"
    spelled = environment_of(here)
    assert spelled["durable"] == "/lambda/nfs/data" and spelled["durable_apart"]
    assert "durable_is_folder" not in spelled


def test_a_platform_without_a_durable_tier_gets_one_by_a_persons_word() -> None:
    here = placed(profiles.load("generic-ssh"), "~/.leasehold", "/nfs/me")
    assert copies_to(here) == "/nfs/me/leasehold"
    assert all("durable folder" in verb.keeps for verb in here.verbs)


def test_our_folder_on_the_durable_disk_itself_needs_no_copy() -> None:
    on_volume = placed(profiles.load("lambda"), "/lambda/nfs/data/lease", "/lambda/nfs/data")
    assert on_volume.state_tier.name == "filesystem"
    assert copies_to(on_volume) == "" and "durable" not in environment_of(on_volume)
    assert "durable" not in environment_of(placed(profiles.load("autodl"), "/root/autodl-fs/lease"))


def test_a_network_volume_gets_the_copy_of_a_folder_beside_it() -> None:
    here = placed(profiles.load("runpod-volume"), "/root/lease")
    assert (here.state_tier.name, copies_to(here)) == ("container disk", "/workspace/leasehold")


@pytest.mark.parametrize("platform", profiles.names())
def test_the_default_folder_leaves_what_the_box_is_told_as_it_was(platform: str) -> None:
    profile = profiles.load(platform)
    path = profile.state_tier.path
    root = path.rstrip("/") + "/leasehold" if path.startswith("/") else "~/.leasehold"
    assert placed(profile, root) == profile
