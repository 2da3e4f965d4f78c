"""What a cluster refuses, as sentences: before anything is applied where possible, and nothing is left behind."""

from __future__ import annotations

import json

import pytest

from .conftest import TRAIN, Person, eventually

pytestmark = pytest.mark.kubernetes

_HUNGRY = "import sys\nheld = [bytearray(8 << 20) for _ in range(1000 if len(sys.argv) > 2 else 0)]\n" + TRAIN


def test_an_image_that_cannot_be_pulled_is_named_and_nothing_is_left(person: Person) -> None:
    person.toy(kubernetes={"image": "leasehold.test/absent@sha256:" + "0" * 64})
    done = person.lease("run", "--on", person.on)
    assert done.code == 4 and "k8s.image" in done.said, done.said
    eventually(lambda: person.kinds() == set(), person.kinds)


def test_a_quota_is_told_before_anything_is_applied(person: Person) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"limits.memory": "100Mi"}},
    }
    person.kubectl("create", "-f", "-", text=json.dumps(quota))
    person.toy()
    done = person.lease("run", "--on", person.on)
    assert done.code == 4 and "k8s.quota" in done.said and "exceeded quota" in done.said, done.said
    assert person.kinds() == set()


def test_a_limit_range_is_told_before_anything_is_applied(person: Person) -> None:
    limit = {"type": "Container", "max": {"memory": "100Mi"}}
    person.kubectl("create", "-f", "-", text=json.dumps(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    ))  # fmt: skip
    person.toy()
    done = person.lease("run", "--on", person.on)
    assert done.code == 4 and "k8s.limit_range" in done.said, done.said
    assert person.kinds() == set()


def test_cards_that_no_node_offers_are_told_and_awaited(person: Person) -> None:
    person.toy("5", resources={"gpu": {"count": 1}})
    running = person.begin("run", "--on", person.on)
    running.until("no node has enough free cards")
    assert "no node offers nvidia.com/gpu" in running.said
    person.cluster.give_gpus(1)
    assert running.end() == 0, running.said


def test_a_trainer_above_its_memory_limit_is_told_so(person: Person) -> None:
    person.toy("0", "hungry", attempts=1, kubernetes={"memory": "128MB"})
    person.write("train.py", _HUNGRY)
    done = person.lease("run", "--on", person.on)
    assert done.code == 6 and "memory" in done.said, done.said
    assert "raise kubernetes.memory" in done.said, done.said


def test_the_printed_role_is_enough(person: Person) -> None:
    person.environment["TOY_TOKEN"] = "x"
    person.toy(secrets=["TOY_TOKEN"])
    other = f"k8s:small/{person.namespace}"
    refused = person.lease("run", "--on", other)
    assert refused.code == 3 and "the account may not" in refused.said, refused.said
    role = json.loads(person.lease("k8s", "rights", "--on", other, "--json").out)["role"]
    person.kubectl("create", "-f", "-", text=json.dumps(role))
    person.kubectl("create", "rolebinding", "small", "--role=leasehold", "--user=small")
    done = person.lease("run", "--on", other)
    assert done.code == 0, done.said


def test_the_written_manifest_is_what_a_run_would_create(person: Person) -> None:
    person.toy()
    written = str(person.folder / "job.yaml")
    assert person.lease("k8s", "manifest", "--on", person.on, "--to", written).code == 0
    person.kubectl("create", "-f", written, "--validate=false")
    done = person.lease("run", "--on", person.on)
    assert done.code == 0 and "created in" not in done.said, done.said


def test_a_manifest_that_becomes_part_of_the_code_is_told(person: Person) -> None:
    person.toy()
    done = person.lease("k8s", "manifest", "--on", person.on, "--to", "job.yaml")
    assert done.code == 0 and "part of the code" in done.said, done.said


def test_a_context_that_is_not_there_is_named(person: Person) -> None:
    person.toy()
    done = person.lease("run", "--on", "k8s:nowhere")
    assert done.code == 5 and "no context 'nowhere'" in done.said
