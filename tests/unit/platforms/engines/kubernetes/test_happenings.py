"""Events and states of pods, as the API server words them, become sentences with a class and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.platforms.engines.kubernetes.happenings import ENDED, NEVER, WAITS, of_event, of_events, of_pod

# As real servers wrote them.
EVENTS = [
    ("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "k8s.no_gpu", WAITS),
    ("FailedScheduling", "0/1 nodes are available: 1 Insufficient memory.", "k8s.no_room", WAITS),
    ("FailedScheduling", "0/1 nodes are available: 1 node(s) had taint {a: b}, that", "k8s.taint", WAITS),
    ("FailedScheduling", "0/2 nodes are available: 2 node(s) didn't match node selector.", "k8s.no_node", WAITS),
    ("FailedScheduling", '0/1 nodes are available: 1 persistentvolumeclaim "c1" not found.', "k8s.volume", WAITS),
    ("FailedScheduling", "pod has unbound immediate PersistentVolumeClaims", "k8s.volume", WAITS),
    ("Failed", 'Failed to pull image "x/y": rpc error: code = NotFound', "k8s.image", NEVER),
    ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is', "k8s.multi_attach", WAITS),
    ("FailedMount", 'MountVolume.SetUp failed for volume "s": secret "x" not found', "k8s.no_secret", WAITS),
    ("FailedCreate", 'pods "x" is forbidden: exceeded quota: q, requested: limits.memory=1Gi', "k8s.quota", WAITS),
    ("FailedCreate", 'pods "x" is forbidden: maximum memory usage per Container is 100Mi', "k8s.limit_range", NEVER),
    ("FailedCreate", 'admission webhook "policy.example" denied the request: no root', "k8s.admission", NEVER),
    ("FailedCreate", 'pods "x" is forbidden: violates PodSecurity "restricted:latest"', "k8s.admission", NEVER),
    ("Evicted", "The node was low on resource: memory.", "k8s.evicted", ENDED),
    ("Preempted", "Preempted by other/pod on node n1", "k8s.preempted", ENDED),
    ("NodeNotReady", "Node is not ready", "k8s.node_lost", ENDED),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "message", "kind", "outlook"), EVENTS)
def test_an_event_becomes_a_sentence(reason: str, message: str, kind: str, outlook: str) -> None:
    said = of_event({"reason": reason, "message": message})
    assert said is not None
    assert (said.kind, said.outlook) == (kind, outlook)
    assert message[:40] in said.text


def test_ordinary_events_say_nothing() -> None:
    assert of_event({"reason": "Scheduled", "message": "Successfully assigned default/p1 to node-1"}) is None
    assert of_event({"reason": "Pulled", "message": "Container image already present on machine"}) is None


def test_what_lacks_room_is_named() -> None:
    said = of_event({"reason": "FailedScheduling", "message": "0/1 nodes are available: 1 Insufficient cpu."})
    assert said is not None and said.text.startswith("no node has enough free cpu")


def test_each_class_is_told_once_in_its_newest_form() -> None:
    events = [{"reason": "FailedScheduling", "message": f"{n} Insufficient cpu"} for n in (1, 2)]
    assert [said.text[-16:] for said in of_events(events)] == ["Insufficient cpu"[-15:] + ")"]
    assert "2 Insufficient" in of_events(events)[0].text


def ended(**terminated: Any) -> dict[str, Any]:
    return {
        "status": {"phase": "Failed", "containerStatuses": [{"name": "train", "state": {"terminated": terminated}}]}
    }


@pytest.mark.parametrize(
    ("pod", "kind", "remedy"),
    [
        (ended(reason="OOMKilled", exitCode=137), "k8s.oom", "raise kubernetes.memory"),
        (ended(reason="Error", exitCode=3), "k8s.exit", ""),
        ({"status": {"phase": "Failed", "reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds"}},
         "k8s.evicted", "raise kubernetes.ephemeral"),
        ({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}, "k8s.deadline", "raise kubernetes.deadline"),
        ({"status": {"phase": "Failed", "reason": "NodeLost"}}, "k8s.node_lost", "it starts again"),
    ],
)  # fmt: skip
def test_the_end_of_a_pod_has_a_class_and_a_remedy(pod: dict[str, Any], kind: str, remedy: str) -> None:
    said = of_pod(pod)
    assert said is not None and said.kind == kind and remedy in said.remedy


def test_a_running_pod_and_one_that_ended_well_say_nothing() -> None:
    assert of_pod({"status": {"phase": "Running"}}) is None
    assert of_pod(ended(reason="Completed", exitCode=0)) is None


def test_escapes_in_a_clusters_words_are_taken_out() -> None:
    said = of_event({"reason": "FailedScheduling", "message": "\x1b[2Jgone\n taint"})
    assert said is not None and "\x1b" not in said.text and "\n" not in said.text
