"""Secrets are not sent to a box whose only place for them is shared with other boxes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasehold.errors import Refusal
from leasehold.facts import profiles
from leasehold.lifecycle.preflight.secret_tier import refuse_shared
from leasehold.model.platform.placing import tier_of

AUTODL = profiles.load("autodl")
UNNAMED = replace(AUTODL, environment=replace(AUTODL.environment, credentials=""))


def test_a_root_on_a_shared_tier_is_refused_when_no_private_one_is_named() -> None:
    with pytest.raises(Refusal, match="KEY would lie on file storage") as refused:
        refuse_shared(UNNAMED, "/root/autodl-fs/leasehold", ["KEY"])
    assert refused.value.code == "secret.shared_tier"


@pytest.mark.parametrize("root", ["/root/autodl-tmp/leasehold", "/root/autodl-fs-not/x", "/root/.leasehold"])
def test_a_root_of_this_box_alone_is_fine(root: str) -> None:
    refuse_shared(UNNAMED, root, ["KEY"])


def test_a_private_tier_takes_them_wherever_the_root_lies() -> None:
    refuse_shared(AUTODL, "/root/autodl-fs/leasehold", ["KEY"])


def test_without_secrets_any_root_is_fine() -> None:
    refuse_shared(UNNAMED, "/root/autodl-fs/leasehold", [])


def test_the_deepest_tier_holds_a_path() -> None:
    found = tier_of(AUTODL, "/root/autodl-fs/x")
    assert found is not None and found.name == "file storage"


def test_the_nodes_of_a_cluster_share_what_only_you_can_read() -> None:
    refuse_shared(profiles.load("slurm"), "/scratch/me/leasehold", ["KEY"])
