"""SkyPilot tasks carried over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.init.convert.convert import Conversion
from leasehold.model.job.job import Job

Carried = Callable[..., tuple[Conversion, Job]]

TASK = """
name: llama-ft
workdir: .
num_nodes: 2
resources:
  infra: aws/us-east-1
  accelerators: A100-80GB:8
  disk_size: 512
  use_spot: true
  cpus: 32+
envs:
  MODEL_SIZE: 13b
  EPOCHS: 3
  WANDB_API_KEY:
file_mounts:
  /data: s3://my-data
  /checkpoints:
    name: ckpts
    mode: MOUNT
  ~/conf: ./conf
setup: |
  pip install -r requirements.txt
run: |
  source .venv/bin/activate
  torchrun --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE --node_rank=${SKYPILOT_NODE_RANK} \\
    train.py --output_dir /checkpoints --epochs $EPOCHS --data /data
"""


def test_a_task_becomes_a_job(carried: Carried) -> None:
    conversion, job = carried("sky.yaml", TASK)
    assert conversion.source_kind == "skypilot"
    assert job.name == "llama-ft"
    assert job.setup.strip() == "pip install -r requirements.txt"
    assert dict(job.env) == {"MODEL_SIZE": "13b", "EPOCHS": "3"}
    assert job.secrets == ("WANDB_API_KEY",)
    assert job.disk_bytes == 512 << 30
    assert job.gpu is not None
    assert (job.gpu.name, job.gpu.count) == ("A100", 8)
    assert job.gpu.memory_min_bytes < 80 << 30 < job.gpu.memory_max_bytes * 1.03  # as the audit gate allows


def test_its_own_variables_are_set_and_the_bucket_is_replaced(carried: Carried) -> None:
    _, job = carried("sky.yaml", TASK)
    assert job.run.startswith("SKYPILOT_NUM_GPUS_PER_NODE=8\nSKYPILOT_NODE_RANK=0\n. .venv/bin/activate\n")
    assert '--output_dir "$LEASE_OUT"' in job.run


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (3, "num_nodes 2"),
        (5, "resources.infra"),
        (8, "resources.use_spot"),
        (9, "resources.cpus"),
        (15, "file_mounts /data <- s3://my-data"),
        (16, "file_mounts /checkpoints <- ckpts"),
        (19, "file_mounts ~/conf <- ./conf"),
        (25, "/data"),
    ],
)
def test_what_is_left_is_named_with_its_line_and_reason(carried: Carried, line: int, what: str) -> None:
    conversion, _ = carried("sky.yaml", TASK)
    assert [note for note in conversion.not_converted if note.startswith(f"line {line}: {what}: ")]


@pytest.mark.parametrize(
    ("wish", "name", "count", "others"),
    [
        ("V100:8", "V100", 8, 0),
        ("T4", "T4", 1, 0),
        ("{A100: 4}", "A100", 4, 0),
        ("['L4:1', 'H100:1', 'A100:1']", "L4", 1, 2),
        ("{A100:1, V100:1}", "A100", 1, 1),
        ("RTX4090:2", "RTX 4090", 2, 0),
        ("L40S:4", "L40S", 4, 0),
    ],
)
def test_accelerators_in_every_spelling(carried: Carried, wish: str, name: str, count: int, others: int) -> None:
    conversion, job = carried("sky.yaml", f"resources:\n  accelerators: {wish}\nrun: python t.py\n")
    assert job.gpu is not None
    assert (job.gpu.name, job.gpu.count) == (name, count)
    assert sum("one kind of card" in note for note in conversion.not_converted) == others


@pytest.mark.parametrize("wish", ["tpu-v5litepod-8:1", "A100:0.5"])
def test_tpus_and_parts_of_a_card_are_reported(carried: Carried, wish: str) -> None:
    conversion, job = carried("sky.yaml", f"resources:\n  accelerators: {wish}\nrun: python t.py\n")
    assert job.gpu is None
    assert any(f"accelerators {wish}" in note for note in conversion.not_converted)


@pytest.mark.parametrize("key", ["any_of", "ordered"])
def test_the_first_of_several_choices_is_taken_and_the_rest_reported(carried: Carried, key: str) -> None:
    text = f"resources:\n  disk_size: 100\n  {key}:\n    - accelerators: H100:8\n    - accelerators: A100:8\nrun: x\n"
    conversion, job = carried("sky.yaml", text)
    assert job.gpu is not None
    assert job.gpu.name == "H100"
    assert job.disk_bytes == 100 << 30
    assert any("1 further choices" in note for note in conversion.not_converted)


def test_values_of_secrets_are_dropped_everywhere(carried: Carried) -> None:
    text = (
        "envs:\n  HF_TOKEN: hf_abcdefghijklmnopqrstuvwx\nsecrets:\n  MINE: hunter2hunter2\n"
        "run: |\n  curl -H 'X: hunter2hunter2' https://u:hunter3@host/\n"
        "  hf login --token hf_abcdefghijklmnopqrstuvwx\n"
        "  DB_PASSWORD=abc python t.py --api-key sk-0123456789abcdef0123\n"
    )
    conversion, job = carried("sky.yaml", text)
    everything = conversion.text + "".join(conversion.converted + conversion.not_converted)
    for value in ("hf_abcdef", "hunter2", "hunter3", "sk-0123", "=abc"):
        assert value not in everything
    assert {"HF_TOKEN", "MINE", "DB_PASSWORD"} <= set(job.secrets)
    assert '"${HF_TOKEN}"' in job.run
    assert any("single quotes" in note for note in conversion.not_converted)


def test_a_service_is_refused(carried: Carried) -> None:
    with pytest.raises(UserError) as caught:
        carried("sky.yaml", "service:\n  readiness_probe: /\nrun: python serve.py\n")
    assert caught.value.code == "init.not_a_task"


def test_a_pipeline_is_refused_with_the_way_out(carried: Carried) -> None:
    with pytest.raises(UserError) as caught:
        carried("sky.yaml", "name: p\n---\nname: a\nrun: x\n---\nname: b\nrun: y\n")
    assert caught.value.code == "init.not_a_task"
    assert "split" in caught.value.hint


def test_a_task_without_a_command_refuses_at_home(carried: Carried) -> None:
    conversion, job = carried("sky.yaml", "resources:\n  accelerators: T4\n")
    assert "exit 1" in job.run
    assert "exit 1" in job.smoke
    assert "FILL IN" in conversion.text
