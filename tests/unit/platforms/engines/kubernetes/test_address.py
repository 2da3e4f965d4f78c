"""Addresses of clusters."""

from __future__ import annotations

import pytest

from leasehold.errors import UserError
from leasehold.platforms.engines.kubernetes.address import ClusterAddress, object_name

EKS = "arn:aws:eks:eu-west-1:123:cluster/lab"


def test_context_namespace_and_name_are_told_apart() -> None:
    assert ClusterAddress.parse("k8s:lab") == ("lab", "", "")
    assert ClusterAddress.parse("k8s:lab/team-a") == ("lab", "team-a", "")
    assert ClusterAddress.parse("k8s:lab/team-a/lease-toy-1") == ("lab", "team-a", "lease-toy-1")


def test_a_context_that_holds_slashes_is_known_by_its_whole_name() -> None:
    assert ClusterAddress.parse(f"k8s:{EKS}/team-a", [EKS, "lab"]) == (EKS, "team-a", "")
    assert ClusterAddress.parse(f"k8s:{EKS}", [EKS]) == (EKS, "", "")


@pytest.mark.parametrize("text", ["k8s:", "k8s:-x", "k8s:lab/Team", "k8s:lab/a/b/c", "k8s:a b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not the address of a cluster"):
        ClusterAddress.parse(text)


def test_an_address_is_written_as_it_is_read() -> None:
    assert str(ClusterAddress.parse("k8s:lab/team-a/lease-toy-1")) == "k8s:lab/team-a/lease-toy-1"


def test_names_of_objects_are_dns_labels_and_keep_the_hash() -> None:
    name = object_name("My_Job." + "x" * 60 + "-0123456789")
    assert name.startswith("lease-my-job-x") and name.endswith("-0123456789")
    assert len(name) <= 57 and name == name.lower()
