"""What a look at a project sees, and where it says it saw it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.text.project_facts import Base, ProjectFacts, Role
from tests.unit.lifecycle.init.projects import (
    HF_TRAINER,
    KERAS_FIXED_PATHS,
    LIGHTNING_HYDRA,
    NANO_GPT,
    PLAIN_TORCH,
    READS_LEASE_OUT,
    place,
)

Project = Callable[..., Path]


def _flag(facts: ProjectFacts, role: Role) -> list[str]:
    return [flag.name for flag in facts.flags if flag.role is role]


def _patterns(facts: ProjectFacts) -> dict[str, tuple[str, Base]]:
    return {output.pattern: (output.loads, output.base) for output in facts.outputs}


def test_train_py_is_the_entry_and_evaluation_is_not(project: Project) -> None:
    facts = look_at(project(PLAIN_TORCH))
    assert facts.entry is not None
    assert facts.entry.command == "python train.py"
    assert "evaluate.py" not in [entry.path for entry in facts.entries]
    assert facts.related == ("train.py", "model.py")


def test_argparse_flags_have_roles_defaults_and_lines(project: Project) -> None:
    facts = look_at(project(PLAIN_TORCH))
    by_role = {flag.role: flag for flag in facts.flags}
    assert by_role[Role.OUTPUT].name == "--output_dir"
    assert by_role[Role.EPOCHS].default == "90"
    assert by_role[Role.BATCH].name == "--batch-size"
    assert by_role[Role.DATA].required
    assert str(by_role[Role.EPOCHS].where) == place(PLAIN_TORCH, "train.py", "--epochs")
    assert "--checkpoint" not in [flag.name for flag in facts.flags]


def test_saved_files_are_found_below_the_output_flag(project: Project) -> None:
    facts = look_at(project(PLAIN_TORCH))
    found = _patterns(facts)
    assert found["last.pt"] == ("torch", Base.FLAG)
    assert found["epoch_*.pt"] == ("torch", Base.FLAG)
    assert found["metrics.json"] == ("json", Base.FLAG)
    last = next(output for output in facts.outputs if output.pattern == "last.pt")
    assert last.keys == ("model", "optimizer", "epoch")
    assert not last.opaque


def test_resuming_trackers_and_requirements_are_seen(project: Project) -> None:
    facts = look_at(project(PLAIN_TORCH))
    assert str(facts.resumes[0].where) == place(PLAIN_TORCH, "train.py", "torch.load")
    assert [sign.word for sign in facts.trackers] == ["wandb"]
    assert facts.requirements[0].word == "pip install -r requirements.txt"
    assert "names torch" in facts.requirements[0].note


def test_hugging_face_trainer_is_understood(project: Project) -> None:
    facts = look_at(project(HF_TRAINER))
    assert facts.entry is not None
    assert facts.entry.command == "python run_clm.py --dataset_name wikitext --num_train_epochs 3"
    assert str(facts.entry.where) == "README.md:4"
    assert "--max_steps" in _flag(facts, Role.STEPS)
    assert "--max_train_samples" in _flag(facts, Role.LIMIT)
    assert _patterns(facts)["checkpoint-*/*.safetensors"] == ("safetensors", Base.FLAG)
    assert _patterns(facts)["all_results.json"] == ("json", Base.FLAG)
    assert "get_last_checkpoint()" in [sign.word for sign in facts.resumes]
    assert facts.data[0].word == "load_dataset('wikitext')"


def test_hydra_overrides_are_read_from_its_configs(project: Project) -> None:
    facts = look_at(project(LIGHTNING_HYDRA))
    names = [flag.name for flag in facts.flags]
    assert "hydra.run.dir" in names
    assert "trainer.max_epochs" in names
    assert "data.batch_size" in names
    assert next(flag for flag in facts.flags if flag.name == "trainer.max_epochs").where.line == 2
    assert _patterns(facts)["checkpoints/last.ckpt"] == ("torch", Base.FLAG)
    assert [sign.word for sign in facts.trackers] == ["wandb"]


def test_a_configurator_makes_module_constants_settable(project: Project) -> None:
    facts = look_at(project(NANO_GPT))
    assert facts.entry is not None
    assert _flag(facts, Role.STEPS) == ["--max_iters"]
    assert _patterns(facts)["ckpt.pt"] == ("torch", Base.FLAG)
    assert facts.outputs[0].opaque  # it saves `config`


def test_fixed_paths_beside_the_code_are_told_apart(project: Project) -> None:
    found = _patterns(look_at(project(KERAS_FIXED_PATHS)))
    assert found["checkpoints/weights-*.keras"] == ("bytes", Base.HERE)
    assert found["history.csv"] == ("csv", Base.HERE)


def test_a_script_that_reads_lease_out_needs_no_flag(project: Project) -> None:
    facts = look_at(project(READS_LEASE_OUT))
    assert str(facts.lease_out[0].where) == "train.py:7"
    found = _patterns(facts)
    assert found["params.npz"] == ("npz", Base.OUT)
    assert found["log.jsonl"] == ("jsonl", Base.OUT)
    assert [sign.word for sign in facts.secrets] == ["HF_TOKEN"]


@pytest.mark.parametrize(
    ("code", "steps"),
    [
        (
            "import click\n@click.command()\n@click.option('--num-steps', default=5)\ndef main(num_steps): ...\n",
            "--num-steps",
        ),
        ("import fire\ndef main(max_steps=5, out_dir='x'): ...\nfire.Fire(main)\n", "--max_steps"),
        ("import typer\napp = typer.Typer()\n@app.command()\ndef main(max_steps: int = 5): ...\n", "--max-steps"),
        ("from absl import flags\nflags.DEFINE_integer('num_steps', 5, 'n')\n", "--num_steps"),
        ("import tyro\nclass Args:\n    total_timesteps: int = 5\nargs = tyro.cli(Args)\n", "--total_timesteps"),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n", "--trainer.max_steps"),
    ],
    ids=["click", "fire", "typer", "absl", "tyro", "lightning-cli"],
)
def test_other_command_lines_are_read(project: Project, code: str, steps: str) -> None:
    facts = look_at(project({"train.py": "import torch\n" + code}))
    assert _flag(facts, Role.STEPS) == [steps]


def test_a_package_below_src_is_started_as_a_module(project: Project) -> None:
    files = {"src/pkg/train.py": "import torch\nfrom .model import Net\n\nif __name__ == '__main__':\n    ...\n"}
    files["src/pkg/model.py"] = "import torch\ntorch.save({}, 'net.pt')\n"
    facts = look_at(project(files))
    assert facts.entry is not None
    assert facts.entry.command == 'PYTHONPATH="$PWD/src:$PYTHONPATH" python -m pkg.train'
    assert "src/pkg/model.py" in facts.related


def test_the_pages_flags_are_kept_and_what_they_leave_open_is_marked(project: Project) -> None:
    readme = "    python train.py --data <path>\n    python train.py --data $DATA && rm -rf x\n"
    facts = look_at(project({"train.py": "import torch\n", "README.md": readme}))
    assert facts.entry is not None
    assert facts.entry.command == "python train.py --data FILL_IN"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("python train.py --eval_interval=20 --device=cpu", "python train.py --eval_interval=20 --device=cpu"),
        ("python train.py --out /tmp/test-run --lr 0.1 && echo done", "python train.py --out /tmp/test-run --lr 0.1"),
        ("python train.py --root=/path/to/x --lr 0.1 | tee log", "python train.py --root=FILL_IN --lr 0.1"),
        ("python train.py --evaluate --lr 0.1", "python train.py"),
        ("python train.py --resume last.pt", "python train.py"),
    ],
)
def test_a_shown_line_is_kept_but_for_what_does_not_train(project: Project, line: str, command: str) -> None:
    facts = look_at(project({"train.py": "import torch\n", "README.md": f"    {line}\n"}))
    assert facts.entry is not None
    assert facts.entry.command == command


def test_a_module_of_definitions_is_not_proposed_but_folder_scripts_are(project: Project) -> None:
    files = {
        "toylab/__init__.py": "",
        "toylab/train.py": "import torch\ndef train(): ...\n",
        "projects/digits/train.py": "from toylab.train import train\nif __name__ == '__main__':\n    train()\n",
    }
    (entry,) = look_at(project(files)).entries
    assert entry.command == 'PYTHONPATH="$PWD:$PYTHONPATH" python projects/digits/train.py'


def test_no_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        look_at(tmp_path / "absent")
    assert caught.value.code == "init.no_folder"


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("if os.path.exists(p):\n    torch.load(p)\n", ""),
        ("if args.resume:\n    torch.load(p)\n", "only when told to"),
        ("if args.resume:\n    if os.path.isfile(args.resume):\n        torch.load(p)\n", "only when told to"),
        ("if mode == 'new':\n    pass\nelif mode == 'resume':\n    torch.load(p)\n", "only when told to"),
        ("trainer.fit(m, ckpt_path='last')\n", ""),
        ("trainer.fit(m, ckpt_path=cfg.ckpt)\n", "only when told to"),
    ],
)
def test_resuming_by_itself_and_when_told_are_told_apart(project: Project, code: str, note: str) -> None:
    facts = look_at(project({"train.py": f"import os\nimport torch\np = 'a.pt'\n{code}"}))
    assert facts.resumes
    assert {sign.note for sign in facts.resumes} == {note}


def test_an_unrelated_pickle_is_no_resuming(project: Project) -> None:
    code = "import os, pickle, torch\nif os.path.exists(meta_path):\n    pickle.load(open(meta_path, 'rb'))\n"
    assert not look_at(project({"train.py": code})).resumes


def test_a_counter_in_a_name_becomes_a_star(project: Project) -> None:
    code = "import torch\nstep = 0\ntorch.save({}, f'ckpt/{step:07d}.pt')\n"
    assert "ckpt/*.pt" in _patterns(look_at(project({"train.py": code})))


def test_checkpoint_callbacks_in_hydra_configs_are_read(project: Project) -> None:
    files = {
        "train.py": "import hydra\nimport lightning\n@hydra.main(config_path='configs')\ndef main(cfg): ...\n",
        "configs/callbacks/default.yaml": (
            "model_checkpoint:\n  dirpath: ${paths.output_dir}/checkpoints\n"
            "  filename: 'epoch_{epoch:03d}'\n  save_last: True\n"
        ),
        "configs/debug/limit.yaml": "# @package _global_\ntrainer:\n  limit_train_batches: 0.01\n",
    }
    facts = look_at(project(files))
    assert {"checkpoints/epoch_*.ckpt", "checkpoints/last.ckpt"} <= set(_patterns(facts))
    assert "trainer.limit_train_batches" not in [flag.name for flag in facts.flags]


def test_a_script_that_pages_start_with_a_launcher_keeps_it(project: Project) -> None:
    readme = "    torchrun --nproc_per_node=N train.py --data-path /path/to/data\n"
    facts = look_at(project({"train.py": "import torch\n", "README.md": readme}))
    assert facts.entry is not None
    assert facts.entry.command == "torchrun --standalone --nproc_per_node=1 train.py"


def test_a_tracker_that_is_imported_under_a_condition_is_noted_so(project: Project) -> None:
    facts = look_at(project({"train.py": "import torch\nif use_wandb:\n    import wandb\n"}))
    assert facts.trackers[0].note == "only under some condition"


@pytest.mark.parametrize(
    "code",
    [
        "tmp = out / 'last.tmp'\ntorch.save({}, tmp)\nos.replace(tmp, out / 'last.pt')\n",
        "torch.save({}, str(out) + '/last.pt.tmp')\nos.rename(str(out) + '/last.pt.tmp', out / 'last.pt')\n",
        "part = out / 'last.part'\ntorch.save({}, part)\npart.rename(out / 'last.pt')\n",
    ],
    ids=["replace", "rename", "method"],
)
def test_a_file_that_is_renamed_is_known_by_its_last_name(project: Project, code: str) -> None:
    head = "import os, torch\nfrom pathlib import Path\nout = Path(os.environ['LEASE_OUT'])\n"
    assert _patterns(look_at(project({"train.py": head + code}))) == {"last.pt": ("torch", Base.OUT)}
