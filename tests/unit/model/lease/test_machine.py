"""Which readings make two names one machine; images and hosts share much of what looks like an identity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasehold.model.lease.machine import Machine, Same, compare, machine_from_dict, machine_read

ONE = Machine("SHA256:a", "m1", "b1", "pid:[1]", "8:2", "box1", "/root/.leasehold", "gpu")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, Same.YES),
        ({"box_id": "box2", "root": "/data/other"}, Same.YES),  # another root of ours
        ({"host_key": "", "box_id": "box2", "root": "/b"}, Same.UNKNOWN),
        ({"host_key": "SHA256:b"}, Same.YES),  # another door to the very same folder
        ({"host_key": "SHA256:b", "box_id": "box2", "root": "/b"}, Same.UNKNOWN),
        ({"processes": "pid:[2]", "slash": "9:2"}, Same.NO),  # two containers of one image on one host
        ({"processes": ""}, Same.UNKNOWN),
        ({"slash": "9:2"}, Same.UNKNOWN),
        ({"machine_id": "m2"}, Same.UNKNOWN),
        ({"boot": "b2"}, Same.UNKNOWN),  # restarted, or a clone elsewhere
        ({"boot": "b2", "machine_id": "m2"}, Same.NO),  # two machines of one image with a baked host key
        ({"boot": "b2", "host_key": "SHA256:b"}, Same.NO),
        ({"boot": ""}, Same.UNKNOWN),
    ],
)
def test_two_names_are_one_machine_only_where_that_is_proven(change: dict[str, str], same: Same) -> None:
    other = replace(ONE, **change)
    assert compare(ONE, other) is same
    assert compare(other, ONE) is same


def test_what_nobody_said_proves_nothing() -> None:
    assert compare(Machine(), Machine()) is Same.UNKNOWN


def test_a_machine_is_kept_as_it_was_read() -> None:
    said = {"machine_id": "m1", "boot": "b1", "processes": "pid:[1]", "slash": [8, 2], "box_id": "box1", "host": "gpu"}
    read = machine_read({**said, "real_root": "/root/.leasehold"}, "SHA256:a (ED25519)")
    assert read == ONE
    assert machine_from_dict(read.as_dict()) == ONE
