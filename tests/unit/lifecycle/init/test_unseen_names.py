"""Projects whose flags and helpers have names of their own: what the code does with them says what they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.start import draft
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Job
from tests.support.parts import missing_git

Started = Callable[..., tuple[ProjectFacts, str, Job]]
Project = Callable[..., Path]

ARGS = """
    import argparse, os, torch
    p = argparse.ArgumentParser()
    p.add_argument('--steps', type=int, default=1000)
    p.add_argument({flag})
    p.add_argument('--restore-from', default=None)
    args = p.parse_args()
    """


def _loads(job: Job) -> dict[str, str]:
    return {artifact.pattern: artifact.loads for artifact in job.artifacts}


def _script(flag: str, body: str) -> str:
    lines = [line.strip() for line in ARGS.replace("{flag}", flag).strip().splitlines()]
    return "\n".join([*lines, "if args.restore_from:", "    torch.load(args.restore_from)", body, ""])


def test_any_flag_is_the_output_folder_when_the_code_saves_below_it(started: Started) -> None:
    body = "torch.save({'model': 1, 'optimizer': 2}, os.path.join(args.where, 'last.pt'))"
    _, text, job = started({"train.py": _script("'--where', default='stuff'", body)})
    assert '--where "$LEASE_OUT"' in job.run and '--where "$LEASE_OUT"' in job.smoke
    assert _loads(job) == {"last.pt": "torch"}
    assert job.latest == ("last.pt",) and "flags: --restore-from {{latest}}" in text


def test_a_flag_that_names_the_saved_file_itself_is_set_to_a_file(started: Started) -> None:
    _, _, job = started({"train.py": _script("'--target', default='net.pt'", "torch.save({}, args.target)")})
    assert '--target "$LEASE_OUT/net.pt"' in job.run
    assert _loads(job) == {"net.pt": "torch"}


def test_a_flag_that_is_read_or_only_part_of_a_name_is_no_output_folder(started: Started) -> None:
    body = "torch.save({}, os.path.join('runs', args.title, 'x.pt'))\ntorch.save({}, f'{args.title}_best.pt')"
    _, _, job = started({"train.py": _script("'--title', default='a'", body)})
    assert "--title" not in job.run


def test_a_save_through_another_files_function_has_its_callers_name(started: Started) -> None:
    helper = "import torch\ndef save_on_master(*args, **kwargs):\n    if True:\n        torch.save(*args, **kwargs)\n"
    body = (
        "import utils\nstate = {'model': 1, 'epoch': 2}\n"
        "for epoch in range(9):\n"
        "    utils.save_on_master(state, os.path.join(args.output_dir, f'model_{epoch}.pth'))\n"
        "    utils.save_on_master(state, os.path.join(args.output_dir, 'checkpoint.pth'))"
    )
    files = {"train.py": _script("'--output-dir', default='.'", body), "utils.py": helper}
    _, text, job = started(files)
    assert _loads(job) == {"model_*.pth": "torch", "checkpoint.pth": "torch"}
    assert "keys: [model, epoch]" in text and "could not be read" not in text
    assert job.latest


@pytest.mark.parametrize("moved", ["os.replace(path + '.tmp', path)", "os.rename(path + '.tmp', path)"])
def test_a_save_through_a_renaming_function_has_its_callers_name(started: Started, moved: str) -> None:
    helper = f"import os, torch\ndef keep(state, path):\n    torch.save(state, path + '.tmp')\n    {moved}\n"
    body = "from helper import keep\nkeep({'model': 1, 'step': 2}, os.path.join(args.output_dir, 'last.pt'))"
    files = {"train.py": _script("'--output-dir', default='.'", body), "helper.py": helper}
    _, text, job = started(files)
    assert _loads(job) == {"last.pt": "torch"}, text
    assert job.latest == ("last.pt",) and ".tmp" not in text
    here = helper.partition("\n")[2] + body.partition("\n")[2]
    _, text, job = started({"train.py": _script("'--output-dir', default='.'", f"import torch\n{here}")})
    assert _loads(job) == {"last.pt": "torch"} and ".tmp" not in text, text


CLICKED = """
import click, torch
@click.command()
@click.option("--workdir", default="work")
@click.option("--checkpoint", default=None)
def main(workdir, checkpoint):
    start = 0
    if checkpoint:
        s = torch.load(checkpoint)
        start = s["epoch"] + 1
    torch.save({"epoch": start}, f"{workdir}/last.pt")
if __name__ == "__main__":
    main()
"""
PARSED = """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--workdir", default="work")
p.add_argument("--checkpoint", default=None)
args = p.parse_args()
if args.checkpoint:
    s = torch.load(args.checkpoint, map_location="cpu")
    start = s.get("epoch", 0)
torch.save({"epoch": 1}, f"{args.workdir}/last.pt")
"""


@pytest.mark.parametrize("script", [CLICKED, PARSED])
def test_a_checkpoint_flag_resumes_if_the_code_reads_the_files_step(started: Started, script: str) -> None:
    _, text, job = started({"train.py": script})
    assert job.latest == ("last.pt",) and "flags: --checkpoint {{latest}}" in text, text
    _, text, job = started({"train.py": script.replace('s["epoch"]', "len(s)").replace('s.get("epoch", 0)', "len(s)")})
    assert not job.latest, "weights to begin with are no state of this run"


def test_a_function_with_a_path_of_its_own_keeps_it(started: Started) -> None:
    helper = "import torch\ndef keep(state, path='state.pt'):\n    torch.save(state, path)\n"
    body = "from helper import keep\nkeep({'model': 1})"
    files = {"train.py": _script("'--lr', default=0.1", body), "helper.py": helper}
    _, _, job = started(files)
    assert "state.pt" in _loads(job)


def test_a_checkpoint_below_an_unknown_folder_is_looked_for_everywhere(started: Started) -> None:
    engine = (
        "import torch\nfrom pathlib import Path\nclass Keeper:\n    def __init__(self, folder):\n"
        "        self.folder = Path(folder)\n    def save(self, update):\n"
        "        torch.save({'update': update}, self.folder / f'state_{update:06d}.pt')\n"
    )
    body = "from engine import Keeper\nKeeper(args.work_dir).save(1)"
    files = {"train.py": _script("'--work-dir', required=True", body), "engine.py": engine}
    _, text, job = started(files)
    assert job.latest == ("**/state_*.pt",)
    assert "flags: --restore-from {{latest}}" in text


def test_lightnings_checkpoints_lie_below_the_loggers_folder(started: Started) -> None:
    code = """
        import argparse
        import lightning as L
        from lightning.pytorch.callbacks import ModelCheckpoint
        from lightning.pytorch.loggers import CSVLogger
        p = argparse.ArgumentParser()
        p.add_argument("--epochs", type=int, default=50)
        p.add_argument("--log-root", default="logs")
        p.add_argument("--resume-ckpt", default=None)
        args = p.parse_args()
        logger = CSVLogger(args.log_root, name="rings")
        saving = ModelCheckpoint(save_last=True, filename="step{step:06d}")
        trainer = L.Trainer(max_epochs=args.epochs, logger=logger, callbacks=[saving])
        trainer.fit(object(), ckpt_path=args.resume_ckpt)
        """
    _, text, job = started({"run_experiment.py": code})
    assert '--log-root "$LEASE_OUT"' in job.run
    assert _loads(job) == {
        "**/metrics.csv": "csv",
        "**/version_*/*": "bytes",  # hparams.yaml, where the code logs any
        "rings/version_*/checkpoints/*.ckpt": "torch",
    }
    assert job.latest == ("rings/version_*/checkpoints/*.ckpt",)
    assert "flags: --resume-ckpt {{latest}}" in text
    assert "leasehold.checkpoint.lightning" in text, "the adapter is named where its own saves are used, too"


def test_requirements_beside_the_script_are_installed(started: Started) -> None:
    files = {
        "README.md": "    python text/run_lm.py --steps 9\n",
        "text/run_lm.py": _script("'--out-dir', default='o'", "torch.save({}, os.path.join(args.out_dir, 'a.pt'))"),
        "text/requirements.txt": "datasets\n",
        "images/requirements.txt": "pillow\n",
    }
    _, text, job = started(files)
    assert job.setup == "pip install -r text/requirements.txt"
    assert "no requirements file" not in text


def test_the_smoke_is_as_long_as_a_promised_table_needs(started: Started) -> None:
    loop = (
        "import json\nclass Loop:\n    def __init__(self, out, log_every=10):\n"
        "        self.file = open(out + '/m.jsonl', 'a')\n    def log(self):\n        self.file.write(json.dumps({}))\n"
    )
    body = "from loop import Loop\nf = open(os.path.join(args.out_dir, 'metrics.jsonl'), 'a')\nf.write('{}')"
    _, text, job = started({"train.py": _script("'--out-dir', default='o'", body), "loop.py": loop})
    assert "--steps 10" in job.smoke
    assert "10 steps: log_every (loop.py:3)" in text


HYDRA = {
    "src/train.py": """
        import hydra
        @hydra.main(version_base="1.3", config_path="../configs", config_name="train.yaml")
        def main(cfg):
            trainer = hydra.utils.instantiate(cfg.trainer)
            trainer.fit(ckpt_path=cfg.ckpt_path)
        if __name__ == "__main__":
            main()
        """,
    "configs/train.yaml": "defaults:\n  - _self_\n  - trainer: default\n  - logger: {logger}\n\nckpt_path: null\n",
    "configs/trainer/default.yaml": "_target_: lightning.pytorch.trainer.Trainer\nmax_epochs: 9\n",
    "configs/logger/many.yaml": "defaults:\n  - csv\n",
    "configs/logger/csv.yaml": (
        "csv:\n  _target_: lightning.pytorch.loggers.csv_logs.CSVLogger\n"
        '  save_dir: "${paths.output_dir}"\n  name: csv/\n'
    ),
}


def test_only_the_table_of_the_logger_that_the_configs_choose_is_promised(started: Started) -> None:
    for chosen, promised in (("csv", True), ("many", True), ("null", False)):
        files = {name: text.replace("{logger}", chosen) for name, text in HYDRA.items()}
        _, _, job = started(files)
        assert ("**/metrics.csv" in _loads(job)) is promised, chosen
        assert _loads(job).get(".hydra/*.yaml") == "bytes"


def test_ignored_data_that_the_command_or_the_code_names_is_drafted(project: Project) -> None:
    body = "open(os.path.join('data', 'train.bin'))\ntorch.save({}, os.path.join(args.out_dir, 'a.pt'))"
    folder = project({
        "README.md": "    python train.py --photos ./photos\n",
        "train.py": _script("'--out-dir', default='o'", body),
        ".gitignore": "photos/\n*.bin\n*.zip\n",
        "photos/a.npy": b"x" * 40, "photos/b.npy": b"x" * 40,
        "data/train.bin": b"x" * 40,
        "old.zip": b"x" * 2_000_000,
    })  # fmt: skip
    if reason := missing_git():
        pytest.skip(reason)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    job = parse_text(draft(folder, look_at(folder)), "lease.yaml")
    assert sorted(item.source for item in job.data) == ["data/train.bin", "photos"]


def test_a_tokenizers_json_is_promised_as_json_before_its_other_files(started: Started) -> None:
    code = """
        from transformers import HfArgumentParser, Trainer, TrainingArguments
        args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        trainer = Trainer(args=args, processing_class=object())
        trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        trainer.save_model()
        """
    _, _, job = started({"run_lm.py": code})
    patterns = list(_loads(job))
    assert patterns.index("tokenizer_config.json") < patterns.index("tokenizer*"), "the first that fits is the reader"


def test_a_run_may_load_the_classes_it_saved_unless_the_code_decides_it(started: Started) -> None:
    body = "torch.save({'model': 1, 'args': %s}, os.path.join(args.out_dir, 'last.pt'))"
    script = _script("'--out-dir', default='o'", body % "args")
    variable = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    _, _, job = started({"train.py": script})
    assert dict(job.env) == {variable: "1"} and job.artifacts[0].allow_opaque
    _, _, job = started({"train.py": script.replace("restore_from)\n", "restore_from, weights_only=False)\n")})
    assert variable not in dict(job.env)
    _, _, job = started({"train.py": _script("'--out-dir', default='o'", "args = {'a': 1}\n" + body % "vars(args)")})
    assert variable not in dict(job.env)
    plain = "config = {k: 1 for k in 'ab'}\ntorch.save({'config': config}, os.path.join(args.out_dir, 'last.pt'))"
    _, _, job = started({"train.py": _script("'--out-dir', default='o'", plain)})
    assert not job.env and not job.artifacts[0].allow_opaque, "a dictionary is plain data"


def test_bracketed_words_are_one_open_value_and_their_flags_are_optional(started: Started) -> None:
    readme = "    python main.py --steps 9 [--fast] [folder with train and val] <your data>\n"
    body = "torch.save({}, os.path.join(args.out_dir, 'a.pt'))"
    _, _, job = started({"README.md": readme, "main.py": _script("'--out-dir', default='o'", body)})
    assert job.run.startswith('python main.py --steps 9 FILL_IN FILL_IN --out-dir "$LEASE_OUT"')
