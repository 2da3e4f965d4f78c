"""dstack tasks carried over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.init.convert.convert import Conversion
from leasehold.model.job.job import Job

Carried = Callable[..., tuple[Conversion, Job]]

TASK = """
type: task
name: axolotl-qlora
python: "3.12"
env:
  - HF_TOKEN
  - WANDB_PROJECT=mine
  - NCCL_DEBUG=INFO
commands:
  - pip install -U axolotl
  - uv pip install flash-attn
  - |
    accelerate launch train.py \\
      --output-dir checkpoints/a --run $DSTACK_RUN_NAME
  - echo done
resources:
  gpu: 24GB..80GB:2
  disk: 200GB..
  shm_size: 16GB
max_duration: 2d
spot_policy: auto
volumes:
  - /checkpoints:/checkpoints
"""


def test_a_task_becomes_a_job(carried: Carried) -> None:
    conversion, job = carried(".dstack.yml", TASK)
    assert conversion.source_kind == "dstack"
    assert job.name == "axolotl-qlora"
    assert dict(job.env) == {"WANDB_PROJECT": "mine", "NCCL_DEBUG": "INFO"}
    assert job.secrets == ("HF_TOKEN",)
    assert job.disk_bytes == 200 << 30
    assert job.expect_s == 2 * 86400
    assert job.gpu is not None
    assert (job.gpu.count, job.gpu.memory_min_bytes, job.gpu.memory_max_bytes) == (2, 24 * 10**9, 80 << 30)


def test_commands_stop_at_the_first_failure_and_installs_run_once(carried: Carried) -> None:
    _, job = carried(".dstack.yml", TASK)
    assert job.setup == "set -e\npip install -U axolotl\nuv pip install flash-attn"
    assert job.run.startswith('DSTACK_RUN_NAME="$LEASE_RUN"\nset -e\naccelerate launch train.py')
    assert '--output-dir "$LEASE_OUT"' in job.run


@pytest.mark.parametrize(
    ("line", "what"), [(3, "python"), (18, "resources.shm_size"), (20, "spot_policy"), (21, "volumes")]
)
def test_what_is_left_is_named_with_its_line_and_reason(carried: Carried, line: int, what: str) -> None:
    conversion, _ = carried(".dstack.yml", TASK)
    assert [note for note in conversion.not_converted if note.startswith(f"line {line}: {what}: ")]


def test_items_of_lists_are_named_by_their_own_lines(carried: Carried) -> None:
    conversion, _ = carried(".dstack.yml", TASK)
    assert any(note.startswith("line 6: WANDB_PROJECT") for note in conversion.converted)
    assert any(note.startswith("line 13: --output-dir checkpoints/a") for note in conversion.converted)


@pytest.mark.parametrize(
    ("wish", "name", "count", "memory"),
    [
        ("A100", "A100", 1, 0),
        ("2", "", 2, 0),
        ("A100:80GB:4", "A100", 4, 72 * 10**9),
        ("nvidia:H100:8", "H100", 8, 0),
        ("24GB..", "", 1, 24 * 10**9),
        ("1..4", "", 1, 0),
        ("{name: [A100, H100], count: 2, memory: 40GB..}", "A100", 2, 40 * 10**9),
        ("{name: RTX4090}", "RTX 4090", 1, 0),
    ],
)
def test_cards_in_every_spelling(carried: Carried, wish: str, name: str, count: int, memory: int) -> None:
    _, job = carried("a.yml", f"type: task\ncommands: [python t.py]\nresources:\n  gpu: {wish}\n")
    assert job.gpu is not None
    assert (job.gpu.name, job.gpu.count, job.gpu.memory_min_bytes) == (name, count, memory)


def test_no_card_is_no_wish(carried: Carried) -> None:
    _, job = carried("a.yml", "type: task\ncommands: [python t.py]\nresources:\n  gpu: 0\n")
    assert job.gpu is None


def test_env_may_be_a_map_with_references_to_secrets(carried: Carried) -> None:
    text = "type: task\ncommands: [python t.py]\nenv:\n  TOKEN_X: ${{ secrets.hf }}\n  A: 1\n  EOS_TOKEN: </s>\n"
    _, job = carried("a.yml", text)
    assert job.secrets == ("TOKEN_X",)
    assert dict(job.env) == {"A": "1", "EOS_TOKEN": "</s>"}


def test_old_artifacts_are_promised(carried: Carried) -> None:
    _, job = carried("a.yml", "type: task\ncommands: [python t.py]\nartifacts:\n  - path: output\n  - ../x\n")
    assert [artifact.pattern for artifact in job.artifacts] == ["output/**"]


def test_credentials_for_a_registry_are_not_written(carried: Carried) -> None:
    text = "type: task\ncommands: [python t.py]\nregistry_auth:\n  username: me\n  password: swordfish77\n"
    conversion, _ = carried("a.yml", text)
    assert "swordfish77" not in conversion.text + "".join(conversion.not_converted)


@pytest.mark.parametrize("kind", ["service", "dev-environment", "fleet", "volume"])
def test_what_is_no_task_is_refused(carried: Carried, kind: str) -> None:
    with pytest.raises(UserError) as caught:
        carried("a.yml", f"type: {kind}\nname: x\n")
    assert caught.value.code == "init.not_a_task"
    assert kind in caught.value.message
