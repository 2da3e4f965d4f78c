"""The job file that comes of a project: it runs the right thing, and says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.errors import HomeError, UserError
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.start import draft, write_new
from leasehold.lifecycle.init.text.page import lines_to_fill_in
from leasehold.model.job.job import Job
from tests.unit.lifecycle.init.projects import (
    HF_TRAINER,
    KERAS_FIXED_PATHS,
    LIGHTNING_HYDRA,
    NANO_GPT,
    PLAIN_TORCH,
    READS_LEASE_OUT,
    place,
)

Started = Callable[..., tuple[object, str, Job]]
Project = Callable[..., Path]


def _loads(job: Job) -> dict[str, str]:
    return {artifact.pattern: artifact.loads for artifact in job.artifacts}


def test_a_torch_script_is_pointed_home_and_its_gap_is_marked(started: Started) -> None:
    _, text, job = started(PLAIN_TORCH)
    assert job.name == "resnet-cifar"
    assert job.run == 'python train.py --data FILL_IN --output_dir "$LEASE_OUT"'
    assert f"FILL IN: --data is required ({place(PLAIN_TORCH, 'train.py', '--data')})." in text
    assert _loads(job) == {"last.pt": "torch", "epoch_*.pt": "torch", "metrics.json": "json"}
    assert job.artifacts[0].keys == ("model", "optimizer", "epoch")
    assert job.checkpoint.path == "last.pt"
    assert job.secrets == ("WANDB_API_KEY",)
    assert job.setup == "pip install -r requirements.txt"
    assert job.progress == "auto"


def test_the_lines_that_wait_for_the_person_can_be_found(started: Started) -> None:
    _, text, _ = started(PLAIN_TORCH)
    lines = text.splitlines()
    found = lines_to_fill_in(text)
    assert all("FILL IN" in lines[at - 1] or "FILL_IN" in lines[at - 1] for at in found)
    assert any("--data FILL_IN" in lines[at - 1] for at in found)
    assert not any("marks what" in lines[at - 1] for at in found)
    assert lines_to_fill_in("name: toy\n") == []


def test_the_smoke_is_the_same_command_in_tiny(started: Started) -> None:
    _, text, job = started(PLAIN_TORCH)
    for part in ("--epochs 1", "--workers 0", "--device cpu", '--output_dir "$LEASE_OUT"'):
        assert part in job.smoke
    assert "--batch-size" not in job.smoke  # small batches make an epoch longer
    assert f"shortened by --epochs ({place(PLAIN_TORCH, 'train.py', '--epochs')})" in text


def test_every_guess_says_where_it_comes_from(started: Started) -> None:
    _, text, _ = started(PLAIN_TORCH)
    for needle in ("--output_dir", "torch.save(state", "json.dump", "import wandb", "torch.load"):
        assert place(PLAIN_TORCH, "train.py", needle) in text
    assert "requirements.txt:1 names torch" in text
    assert "# expect: 6h" in text
    assert "# resources: {gpu:" in text


def test_hugging_face_flags_shorten_and_save_early(started: Started) -> None:
    _, text, job = started(HF_TRAINER)
    assert job.run.startswith("python run_clm.py --dataset_name wikitext --num_train_epochs 3")
    assert '--output_dir "$LEASE_OUT"' in job.run
    assert "--max_steps 3" in job.smoke
    assert "--save_steps 2" in job.smoke
    assert _loads(job)["checkpoint-*/trainer_state.json"] == "json"
    assert _loads(job)["*.safetensors"] == "safetensors"
    assert _loads(job)["config.json"] == "json"
    assert job.setup == "" and "pyproject.toml:" not in text and "imports its own copy" in text


def test_hydra_overrides_have_its_own_spelling(started: Started) -> None:
    _, _, job = started(LIGHTNING_HYDRA)
    assert job.run == 'python src/train.py hydra.run.dir="$LEASE_OUT"'
    assert "trainer.max_epochs=1" in job.smoke
    assert "trainer.accelerator=cpu" in job.smoke
    assert job.checkpoint.path == "checkpoints/*.ckpt"
    assert _loads(job)[".hydra/*.yaml"] == "bytes"
    assert all(artifact.allow_opaque for artifact in job.artifacts if artifact.loads == "torch")
    assert job.setup == "conda env update -n base -f environment.yaml"


def test_configurator_flags_are_joined(started: Started) -> None:
    _, _, job = started(NANO_GPT)
    assert job.run == 'python train.py --out_dir="$LEASE_OUT"'
    assert job.smoke == 'python train.py --max_iters=3 --batch_size=2 --device=cpu --out_dir="$LEASE_OUT"'


def test_fixed_folders_and_files_are_linked(started: Started) -> None:
    _, text, job = started(KERAS_FIXED_PATHS)
    assert 'ln -sfn "$LEASE_OUT"/checkpoints checkpoints' in job.run
    assert 'ln -sfn "$LEASE_OUT"/history.csv history.csv' in job.run
    assert "GUESS: it writes to checkpoints/ beside the code" in text
    assert _loads(job) == {"checkpoints/weights-*.keras": "bytes", "history.csv": "csv"}


def test_the_drafted_command_brings_files_home_and_survives_a_restart(started: Started, tmp_path: Path) -> None:
    seen = "import numpy as np\nnp.save('ckpt/w', 1)\nopen('log.csv', 'w').write('a')\n"
    _, _, job = started({"train.py": f"import torch\n{seen}"})
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    acted = "import os\nos.makedirs('ckpt', exist_ok=True)\nopen('ckpt/w.npy', 'a').write('x')\nopen('log.csv', 'w')\n"
    (work / "train.py").write_text(acted)
    environ = {"LEASE_OUT": str(out), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run(["/bin/sh", "-c", job.run], cwd=work, env=environ, check=True)
    assert (out / "ckpt/w.npy").read_text() == "xx"
    assert (out / "log.csv").exists()
    assert not (out / "ckpt").is_symlink()


def test_a_script_that_reads_lease_out_is_left_alone(started: Started) -> None:
    _, text, job = started(READS_LEASE_OUT)
    assert job.run == "python train.py"
    assert "It reads $LEASE_OUT by itself (train.py:7)." in text
    assert _loads(job) == {"params.npz": "npz", "log.jsonl": "jsonl"}
    assert job.secrets == ("HF_TOKEN",)
    assert job.smoke == ""
    assert "# smoke: python train.py --steps 3" in text


@pytest.mark.parametrize(
    ("declared", "read", "flags"),
    [
        ("'--resume', default=''", "args.resume", "--resume {{latest}}"),
        ("'--resume', action='store_true'", "args.resume", "--resume"),
        ("'--resume_from', type=str", "args.resume_from", "--resume_from {{latest}}"),
        ("'--init-from', default='scratch'", "args.init_from == 'resume'", "--init-from resume"),
        ("'--init-from', default='gpt2'", "args.init_from", ""),
        ("'--lr', default=0.1", "args.lr", ""),
    ],
)
def test_the_resume_line_is_drafted_from_the_codes_own_flag(
    started: Started, declared: str, read: str, flags: str
) -> None:
    code = (
        "import argparse, os, torch\np = argparse.ArgumentParser()\np.add_argument('--out-dir', default='out')\n"
        f"p.add_argument({declared})\nargs = p.parse_args()\nif {read}:\n    torch.load(args.out_dir)\n"
        "torch.save({}, os.path.join(args.out_dir, 'last.pt'))\n"
    )
    _, text, job = started({"train.py": code})
    assert ("{{resume}}" in text) == bool(flags) == bool(job.latest)
    assert not flags or (job.latest == ("last.pt",) and f"flags: {flags}" in text)


def test_a_trainer_without_a_resume_flag_is_pointed_to_its_adapter(started: Started) -> None:
    code = "import lightning as L\ntrainer = L.Trainer(max_epochs=3)\ntrainer.fit(object())\n"
    _, text, job = started({"train.py": code})
    assert "leasehold.checkpoint.lightning" in text
    assert _loads(job)["lightning_logs/version_*/checkpoints/*.ckpt"] == "torch"
    assert 'ln -sfn "$LEASE_OUT"/lightning_logs lightning_logs' in job.run


def test_a_package_is_never_installed_editable_and_its_needs_are(started: Started) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "x"\nversion = "0"\ndependencies = ["numpy>=1", "tqdm"]\n',
        "x/__init__.py": "", "scripts/train.py": "import x, torch\nif __name__ == '__main__':\n    ...\n",
    }  # fmt: skip
    _, text, job = started(files)
    assert job.setup == "pip install 'numpy>=1' tqdm"
    assert job.run.startswith('PYTHONPATH="$PWD:$PYTHONPATH" python scripts/train.py')
    assert "-e ." not in job.setup + job.run


def test_missing_resume_is_marked(started: Started) -> None:
    _, text, _ = started(READS_LEASE_OUT)
    assert "FILL IN: nothing seems to load the latest checkpoint" in text


def test_a_launcher_with_processes_asks_for_as_many_cards(started: Started) -> None:
    readme = "Train with\n\n    torchrun --nproc_per_node=4 train.py --epochs 90\n"
    code = "import torch, argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs')\n"
    _, _, job = started({"train.py": code, "README.md": readme})
    assert job.run == "torchrun --nproc_per_node=4 train.py --epochs 90"
    assert job.gpu is not None
    assert job.gpu.count == 4
    assert job.smoke == "torchrun --nproc_per_node=1 train.py --epochs 1"


def test_a_path_outside_the_project_is_marked_and_not_promised(started: Started) -> None:
    _, text, job = started({"train.py": "import torch\ntorch.save({}, '/data/run/last.pt')\n"})
    assert _loads(job) == {"**": "bytes"}
    assert "FILL IN: train.py:2 torch.save() writes data/run/last.pt, below a fixed place outside the project" in text


def test_init_writes_once_and_never_again(project: Project) -> None:
    folder = project(PLAIN_TORCH)
    target = folder / "lease.yaml"
    text = draft(folder, look_at(folder))
    write_new(target, text)
    with pytest.raises(UserError) as caught:
        write_new(target, "another")
    assert caught.value.code == "init.exists"
    assert str(target) in caught.value.message
    assert "--to" in caught.value.hint
    assert target.read_text() == text


def test_init_does_not_write_through_a_dangling_link(project: Project, tmp_path: Path) -> None:
    folder = project(PLAIN_TORCH)
    (folder / "lease.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError):
        write_new(folder / "lease.yaml", "name: toy\n")
    assert not (tmp_path / "elsewhere").exists()


def test_init_says_when_it_cannot_write(project: Project) -> None:
    folder = project(PLAIN_TORCH)
    with pytest.raises(HomeError) as caught:
        write_new(folder / "absent" / "lease.yaml", "name: toy\n")
    assert caught.value.code == "init.cannot_write"


def test_a_switch_that_guards_saving_is_switched_on(started: Started) -> None:
    code = (
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--save-model', action='store_true')\n"
        "p.add_argument('--epochs')\nargs = p.parse_args()\nif args.save_model:\n    torch.save({}, 'net.pt')\n"
    )
    _, text, job = started({"main.py": code + "if __name__ == '__main__':\n    ...\n"})
    assert "python main.py --save-model\n" in job.run
    assert "--save-model" in job.smoke
    assert "--save-model (main.py:3) makes it save at all." in text


def test_a_tracker_under_a_condition_makes_no_secret_required(started: Started) -> None:
    _, text, job = started({"train.py": "import torch\nif use_wandb:\n    import wandb\n"})
    assert job.secrets == ()
    assert "then it needs WANDB_API_KEY" in text
