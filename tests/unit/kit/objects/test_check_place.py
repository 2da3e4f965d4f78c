"""A place is proven on a scratch key: what it does wrong is named, and nothing is left behind."""

from __future__ import annotations

from typing import Dict, Iterator, List

import pytest

from leasehold.kit.objects.check_place import Proof, check_place
from leasehold.kit.objects.object_place import open_bucket
from tests.support.fault_store import Asked, FaultStore, Reply, error


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore() as found:
        yield found


def checked(store: FaultStore) -> Dict[str, Proof]:
    found: List[Proof] = check_place(lambda: open_bucket("s3://kept/p", store.environ), "trial")
    return {proof.what: proof for proof in found}


def test_a_good_place_proves_everything_and_is_left_empty(store: FaultStore) -> None:
    assert [proof.what for proof in checked(store).values() if proof.proven is not True] == []
    assert store.objects == {}


def test_a_store_that_overwrites_silently_still_creates_only_once() -> None:
    with FaultStore(obeys=False) as store:
        proof = checked(store)["create only once"]
        assert proof.proven and "1 of 4" in proof.seen
        assert store.objects == {}


def test_a_place_that_reads_other_bytes_is_refuted(store: FaultStore) -> None:
    store.after = lambda asked, reply: reply._replace(body=reply.body[::-1]) if "range" in asked.headers else reply
    proof = checked(store)["read back"]
    assert proof.proven is False and "OTHER bytes" in proof.seen


def test_a_place_that_keeps_what_was_deleted_is_refuted(store: FaultStore) -> None:
    store.order = lambda asked: Reply(204) if asked.method == "DELETE" else None
    assert checked(store)["delete"].proven is False


def test_after_a_failed_put_the_rest_is_unknown(store: FaultStore) -> None:
    def order(asked: Asked) -> Reply:
        return error(403, "AccessDenied")

    store.order = order
    found = checked(store)
    assert found["put"].proven is False and "[refused]" in found["put"].seen
    assert {proof.proven for what, proof in found.items() if what != "put"} == {None}
