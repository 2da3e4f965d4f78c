"""The objects of a run: what the runbook asks for, no secret, and read back from what a server kept."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import Any

from leasehold.model.job.job import Artifact, CheckpointFacts, GpuWish, Job
from leasehold.platforms.engines.kubernetes import manifest
from leasehold.platforms.engines.kubernetes.address import ClusterAddress
from leasehold.platforms.engines.kubernetes.manifest import Workload

ASKED = {
    "image": "reg.example/torch@sha256:" + "a" * 64,
    "memory": 64 << 30,
    "cpu": "8",
    "ephemeral": 20 << 30,
    "storage": 100 << 30,
    "pull_secrets": ["reg"],
    "node_selector": {"gpu": "a100"},
    "queue": "team-a",
    "run_as_user": 1000,
    "deadline": 3600,
}
JOB = Job(
    "toy", "python train.py", (Artifact("m.pt", "torch"),), secrets=("TOKEN",), gpu=GpuWish(count=2),
    checkpoint=CheckpointFacts(write_s=60.0), kubernetes=ASKED,
)  # fmt: skip


def work(**change: Any) -> Workload:
    return Workload("lease-toy-1", "toy-1", replace(JOB, **change), "team")


def pod(**change: Any) -> dict[str, Any]:
    spec: dict[str, Any] = manifest.job(work(**change))["spec"]["template"]["spec"]
    return spec


def test_cards_are_limits_that_equal_the_requests() -> None:
    resources = pod()["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"]["nvidia.com/gpu"] == "2"
    assert resources["limits"]["ephemeral-storage"] == "20Gi"


def test_shared_memory_is_a_volume_of_a_quarter_of_the_memory() -> None:
    shm = next(volume for volume in pod()["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}


def test_the_grace_fits_a_checkpoints_write_time() -> None:
    assert pod()["terminationGracePeriodSeconds"] == 110
    assert pod(checkpoint=CheckpointFacts())["terminationGracePeriodSeconds"] == 30


def test_a_finished_job_is_never_collected_by_itself() -> None:
    assert "ttlSecondsAfterFinished" not in json.dumps(manifest.job(work()))


def test_disruptions_do_not_count_and_a_failed_run_ends_the_job() -> None:
    spec = manifest.job(work())["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]


def test_no_secret_is_in_the_manifest() -> None:
    text = json.dumps([manifest.claim(work()), manifest.job(work())])
    assert "TOKEN" not in text
    assert manifest.secret(work(), {"TOKEN": "x"})["stringData"] == {"values.json": '{"TOKEN": "x"}'}


def test_a_user_makes_the_pod_non_root_with_its_group_on_the_volume() -> None:
    assert pod()["securityContext"] == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": True}


def test_the_pod_has_no_token_of_the_cluster() -> None:
    assert pod()["automountServiceAccountToken"] is False


def test_kueues_queue_is_a_label_of_the_job() -> None:
    assert manifest.job(work())["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def test_the_claim_has_the_size_that_the_job_asks_for() -> None:
    assert manifest.claim(work())["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_a_reader_is_made_from_what_the_claim_remembers() -> None:
    again = manifest.remembered(manifest.claim(work()), ClusterAddress("c", "team", "lease-toy-1"))
    read = manifest.reader(again)
    assert read["metadata"]["name"] == "lease-toy-1-reader"
    assert read["spec"]["containers"][0]["image"] == ASKED["image"]
    assert "nvidia.com/gpu" not in json.dumps(read)


def test_fields_that_a_server_dropped_are_listed() -> None:
    sent = manifest.job(work())["spec"]
    kept = {key: value for key, value in sent.items() if key != "podFailurePolicy"}
    assert manifest.dropped(sent, kept) == ["spec.podFailurePolicy"]
    assert manifest.dropped(sent, sent) == []


def test_the_bootstrap_is_a_script_that_sh_can_read() -> None:
    for script in (manifest.BOOTSTRAP, manifest.READER):
        assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


def test_sizes_are_written_as_kubernetes_counts_them() -> None:
    assert [manifest.quantity(size) for size in (1 << 30, 3 << 20, 5 << 10, 1000)] == ["1Gi", "3Mi", "5Ki", "1000"]
