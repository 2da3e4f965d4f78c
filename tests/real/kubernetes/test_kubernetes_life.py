"""A run's whole life on a real API server and a real kubelet: start, loss of the pod, results, two-layer teardown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.screens import Session

from .conftest import Person, eventually

pytestmark = pytest.mark.kubernetes


def test_a_run_comes_home_verified_and_is_found_done_without_its_pod(person: Person) -> None:
    person.toy()
    done = person.lease("run", "--on", person.on)
    assert done.code == 0, done.said
    assert "receipt written" in done.said and "detached by k8s-job" in done.said
    person.kubectl("delete", "jobs,pods", "--all")
    again = person.lease("run", "--on", person.on)
    assert again.code == 0 and "already home and verified" in again.said
    assert not person.pods() and len(person.pods("reader")) == 1
    assert "step 5" in person.lease("logs", "toy").out


def test_results_are_read_from_the_volume_after_the_pod_is_gone(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    running.kill()
    person.inside("touch /checkpoints/go")
    eventually(lambda: person.pods()[-1]["status"]["phase"] == "Succeeded", person.pods)
    done = person.lease("pull", "toy")
    assert done.code == 0 and "receipt written" in done.said, done.said


def test_a_deleted_pod_is_followed_by_one_that_goes_on(person: Person) -> None:
    person.toy("40", "gated", secrets=["TOY_TOKEN"])
    person.environment["TOY_TOKEN"] = "nobody-reads-this"
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    person.kubectl("delete", "pod", person.pods()[-1]["metadata"]["name"], "--wait=false")
    running.until("from step 20 with 17")
    person.inside("touch /checkpoints/go")
    assert running.end() == 0, running.said
    assert "the box is being taken away (SIGTERM)" in running.said
    assert "nobody-reads-this" not in person.kubectl("get", "jobs,pods,pvc", "-o", "yaml")
    volume = json.loads(person.kubectl("get", "pvc", "-o", "json"))["items"][0]["spec"]["volumeName"]
    disk = json.loads(person.cluster.kubectl("get", "pv", volume, "-o", "json"))["spec"]["hostPath"]["path"]
    held = [path for path in Path(disk).rglob("*") if path.is_file() and b"nobody-reads-this" in path.read_bytes()]
    assert held == []


def test_a_pod_killed_without_a_word_is_followed_by_one_that_goes_on(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    name = person.pods()[-1]["metadata"]["name"]
    person.kubectl("delete", "pod", name, "--grace-period=0", "--force")
    running.until("from step 20")
    person.inside("touch /checkpoints/go")
    assert running.end() == 0, running.said


def test_an_apiserver_that_restarts_is_no_end(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    person.cluster.restart("apiserver")
    running.until("connected to")
    person.inside("touch /checkpoints/go")
    assert running.end() == 0, running.said


def test_a_node_that_is_drained_hands_the_run_on(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    name = person.pods()[-1]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{person.namespace}/pods/{name}/eviction"
    person.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))
    running.until("from step 20")
    person.inside("touch /checkpoints/go")
    assert running.end() == 0, running.said


def test_a_stop_ends_the_run_and_its_pod(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    stopped = person.lease("stop", "toy")
    assert stopped.code == 0, stopped.said
    running.end()
    eventually(lambda: person.pods()[-1]["status"]["phase"] == "Succeeded", person.pods)


def test_cells_of_a_sweep_come_home_from_one_pod(person: Person) -> None:
    person.toy(cells=[{"seed": 1}, {"seed": 2}, {"seed": 3}])
    done = person.lease("run", "--on", person.on)
    assert done.code == 0, done.said
    assert len(list(person.project.rglob("export/**/result.json"))) == 3


def test_two_layers_go_by_two_approvals(person: Person) -> None:
    person.toy()
    assert person.lease("run", "--on", person.on).code == 0
    for verb, left in (("end-job", {"persistentvolumeclaim"}), ("delete-claim", set())):
        shown = person.lease("down", "toy", "--verb", verb, "--plan").said
        lease = shown.partition(" on ")[2].partition(" ")[0]
        said = Session(person, "kubernetes").type(f"lease down toy --verb {verb}", ("type exactly", f"{verb} {lease}"))
        assert f"by `{verb}`" in said
        assert person.kinds() == left


def test_the_doctor_reads_the_clusters_own_events(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    unfit = json.loads(person.kubectl("get", "job", "-o", "json"))["items"][0]["metadata"]["name"]
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1"}, "type": "Warning",
        "reason": "FailedScheduling",
        "involvedObject": {"kind": "Job", "name": unfit, "namespace": person.namespace},
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    person.kubectl("create", "-f", "-", text=json.dumps(event))
    done = person.lease("doctor", "toy")
    assert "K8S" in done.out + done.said, done
    running.kill()


def test_status_reads_clusters_beside_other_boxes(person: Person) -> None:
    person.toy("40", "gated")
    running = person.begin("run", "--on", person.on)
    running.until("step 20")
    rows = json.loads(person.lease("status", "--refresh", "--json").out)["runs"]
    assert [(row["state"], row["box"].startswith("k8s:bed/")) for row in rows] == [("running", True)]
    person.inside("touch /checkpoints/go")
    assert running.end() == 0, running.said
    person.kubectl("delete", "jobs,pods", "--all")
    done = person.lease("status", "--refresh")
    assert "finished" in done.out and "no answer from" not in done.said, done
