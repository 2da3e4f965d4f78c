"""Slurm batch scripts carried over."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from leasehold.lifecycle.init.convert.convert import Conversion
from leasehold.lifecycle.init.convert.units import slurm_seconds
from leasehold.model.job.job import Job

Carried = Callable[..., tuple[Conversion, Job]]

SCRIPT = """
#!/bin/bash -l
#SBATCH --job-name=vit_imagenet   # a remark
#SBATCH --partition=gpu
#SBATCH -A proj123
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100:4
#SBATCH --cpus-per-task=12
#SBATCH --mem=200G
#SBATCH -t 1-12:00:00
#SBATCH --output=logs/%x_%j.out
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
##SBATCH --mail-type=ALL

module purge
module load cuda/12.1
source ~/.bashrc
conda activate vit
export NCCL_DEBUG=INFO OMP_NUM_THREADS=8
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
cd $SLURM_SUBMIT_DIR

srun --cpu-bind=none -n 1 python train.py \\
  --data /datasets/imagenet \\
  --output-dir /scratch/$USER/out
"""


def test_directives_become_keys(carried: Carried) -> None:
    conversion, job = carried("train.sbatch", SCRIPT)
    assert conversion.source_kind == "sbatch"
    assert job.name == "vit_imagenet"
    assert job.expect_s == 36 * 3600
    assert job.gpu is not None
    assert (job.gpu.name, job.gpu.count) == ("A100", 4)
    assert job.attempts == 3
    assert dict(job.env) == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "8"}


def test_the_command_loses_srun_and_keeps_its_lines(carried: Carried) -> None:
    _, job = carried("train.sbatch", SCRIPT)
    assert "srun" not in job.run
    assert "module" not in job.run
    assert "python train.py \\\n  --data /datasets/imagenet \\\n" in job.run
    assert '--output-dir "$LEASE_OUT"' in job.run
    assert '. "$(conda info --base)/etc/profile.d/conda.sh" && conda activate vit' in job.run
    assert job.run.startswith("SLURM_JOB_ID=")
    assert subprocess.run(["/bin/sh", "-n"], input=job.run.encode(), check=False).returncode == 0


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (3, "--partition=gpu"),
        (4, "--account=proj123"),
        (8, "--cpus-per-task=12"),
        (9, "--mem=200G"),
        (11, "--output=logs/%x_%j.out"),
        (12, "--signal=B:USR1@120"),
        (17, "module load cuda/12.1"),
        (18, "source ~/.bashrc"),
        (19, "conda activate vit"),
        (24, "srun --cpu-bind=none"),
        (25, "/datasets/imagenet"),
    ],
)
def test_what_is_left_is_named_with_its_line_and_reason(carried: Carried, line: int, what: str) -> None:
    conversion, _ = carried("train.sbatch", SCRIPT)
    notes = [note for note in conversion.not_converted if note.startswith(f"line {line}: {what}: ")]
    assert len(notes) == 1
    assert f"#   line {line}: {what}" in conversion.text


def test_a_disabled_directive_is_not_read(carried: Carried) -> None:
    conversion, _ = carried("train.sbatch", SCRIPT)
    assert not any("mail-type" in note for note in conversion.not_converted + conversion.converted)


def test_directives_below_the_first_command_are_ignored_as_sbatch_does(carried: Carried) -> None:
    conversion, job = carried("a.sh", "#!/bin/sh\n#SBATCH -J a\necho hi\n#SBATCH -J b\n")
    assert job.name == "a"
    assert any("below the first command" in note for note in conversion.not_converted)


def test_an_array_is_reported_and_its_first_index_set(carried: Carried) -> None:
    script = "#!/bin/bash\n#SBATCH -a 3-9%2\npython train.py --seed $SLURM_ARRAY_TASK_ID\n"
    conversion, job = carried("a.sh", script)
    assert "SLURM_ARRAY_TASK_ID=3" in job.run
    assert any("--array=3-9%2" in note for note in conversion.not_converted)


def test_bash_is_called_only_where_bash_is_needed(carried: Carried) -> None:
    script = "#!/bin/bash\n#SBATCH -J x\nSEEDS=(1 2)\nif [[ -n 'a' ]]; then\n  echo \"it's $((1 + 1))\"\nfi\n"
    conversion, job = carried("a.sh", script)
    assert job.run.startswith("bash -c ")
    done = subprocess.run(["/bin/sh", "-c", job.run], capture_output=True, check=True)
    assert done.stdout == b"it's 2\n"
    assert any(note.startswith("line 3: run is put into bash -c") for note in conversion.converted)


def test_arithmetic_alone_needs_no_bash(carried: Carried) -> None:
    _, job = carried("a.sh", "#!/bin/bash\n#SBATCH -J x\nexport PORT=$((1 + 2))\npython t.py\n")
    assert not job.run.startswith("bash -c")


def test_leading_installs_become_setup(carried: Carried) -> None:
    _, job = carried("a.sh", "#!/bin/bash\n#SBATCH -J x\npip install -r requirements.txt\npython train.py\n")
    assert job.setup == "pip install -r requirements.txt"
    assert job.run == "python train.py"


def test_lines_inside_blocks_stay_where_they_are(carried: Carried) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -J x\nif true; then\n  export A=1\n  srun python a.py\nfi\ncat <<EOF\nexport B=2\nEOF\n"
    )
    _, job = carried("a.sh", script)
    assert "  export A=1\n  python a.py\nfi" in job.run
    assert "export B=2" in job.run
    assert not job.env


@pytest.mark.parametrize(
    ("option", "name", "count"),
    [
        ("--gres=gpu:2", "", 2),
        ("--gres=gpu", "", 1),
        ("--gres=gpu:v100:8,nvme:1", "V100", 8),
        ("--gpus=h100:4", "H100", 4),
        ("-G 2", "", 2),
        ("--gpus-per-node=a100:2", "A100", 2),
        ("--gres=gpu:rtx2080:1", "RTX 2080", 1),
        ("--gres gpu:a100_80gb:2", "A100", 2),
        ("--gpus-per-task=1 --ntasks=4", "", 4),
    ],
)
def test_cards_are_read_in_every_spelling(carried: Carried, option: str, name: str, count: int) -> None:
    _, job = carried("a.sh", f"#!/bin/bash\n#SBATCH {option}\npython train.py\n")
    assert job.gpu is not None
    assert (job.gpu.name, job.gpu.count) == (name, count)


def test_a_sites_own_word_for_a_card_is_reported(carried: Carried) -> None:
    conversion, job = carried("a.sh", "#!/bin/bash\n#SBATCH --gres=gpu:volta:2\npython train.py\n")
    assert job.gpu is not None
    assert job.gpu.name == ""
    assert any("gpu type volta" in note for note in conversion.not_converted)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("2:00:00", 7200),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-12:30:15", 131415),
        ("UNLIMITED", None),
        ("0", None),
        ("", None),
    ],
)
def test_times_are_read_as_slurm_reads_them(text: str, seconds: int | None) -> None:
    assert slurm_seconds(text) == seconds


def test_several_tasks_are_named_with_the_way_to_several_processes(carried: Carried) -> None:
    conversion, _ = carried("a.sh", "#!/bin/bash\n#SBATCH --ntasks-per-node=8\n#SBATCH -N 4\nsrun python t.py\n")
    assert any("--nodes=4: a run has one box" in note for note in conversion.not_converted)
    assert any("torchrun" in note for note in conversion.not_converted)


def test_the_first_host_is_this_one_and_other_slurm_commands_are_named(carried: Carried) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -N 1\nexport MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "sbatch --begin=now+1hour again.sh\n"
    )
    conversion, job = carried("a.sh", script)
    assert dict(job.env) == {"MASTER_ADDR": "127.0.0.1"}
    assert any(note.startswith("line 4: sbatch: kept, but") for note in conversion.not_converted)
