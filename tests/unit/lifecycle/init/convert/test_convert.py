"""Which kind a file is, what is refused, and that whatever is carried over parses and leaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.lifecycle.init.convert.convert import Conversion, convert
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Job
from tests.unit.lifecycle.init.projects import PLAIN_TORCH

Carried = Callable[..., tuple[Conversion, Job]]
_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "empty"),
        ("#!/bin/bash\npython train.py\n", "without #SBATCH"),
        ("- a\n- b\n", "list"),
        ("apiVersion: v1\nkind: Pod\n", "apiVersion"),
        ("just words", "str"),
    ],
    ids=["empty", "script", "list", "kubernetes", "words"],
)
def test_unknown_kinds_are_refused_with_what_was_seen(carried: Carried, text: str, seen: str) -> None:
    with pytest.raises(UserError) as caught:
        carried("odd.yaml", text)
    assert caught.value.code == "init.unknown_format"
    assert seen in caught.value.message
    assert "SkyPilot" in caught.value.hint


def test_a_leasehold_job_is_recognised(carried: Carried) -> None:
    with pytest.raises(UserError) as caught:
        carried("lease.yaml", "name: a\nrun: x\nartifacts: {a.json: json}\n")
    assert "Leasehold job already" in caught.value.message


def test_binary_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UserError) as caught:
        convert(tmp_path / "bin")
    assert caught.value.code == "init.unreadable"
    with pytest.raises(UserError) as caught:
        convert(tmp_path / "absent")
    assert caught.value.code == "init.no_source"


def test_broken_yaml_names_its_line(carried: Carried) -> None:
    with pytest.raises(UserError) as caught:
        carried("sky.yaml", "run: x\nenvs: {a: [\n")
    assert "sky.yaml:" in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["run: x\nname: &a [*a]\n", "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join(['*' + old] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
    ) + "run: x\nname: *g\n"],
    ids=["loop", "laughs"],
)  # fmt: skip
def test_yaml_that_unfolds_without_end_is_refused(carried: Carried, text: str) -> None:
    with pytest.raises(UserError) as caught:
        carried("sky.yaml", text)
    assert caught.value.code == "job.invalid"


def test_windows_line_ends_are_read(carried: Carried) -> None:
    _, job = carried("a.sh", "#!/bin/bash\r\n#SBATCH -J x\r\npython train.py\r\n")
    assert job.run == "python train.py"


def test_facts_about_the_project_name_what_comes_home(project: Callable[..., Path], tmp_path: Path) -> None:
    folder = project(PLAIN_TORCH)
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -J x\npython train.py --output_dir out/\n")
    job = parse_text(convert(folder / "job.sh", look_at(folder)).text, "x")
    assert [artifact.pattern for artifact in job.artifacts] == ["last.pt", "epoch_*.pt", "metrics.json"]


_WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _WORDS)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3), max_leaves=8
)
_SKY = st.fixed_dictionaries(
    {"run": _SCALARS},
    optional={
        "name": _SCALARS,
        "setup": _VALUES,
        "envs": _VALUES,
        "secrets": _VALUES,
        "num_nodes": _VALUES,
        "workdir": _VALUES,
        "file_mounts": _VALUES,
        "resources": st.fixed_dictionaries(
            {}, optional={"accelerators": _VALUES, "disk_size": _VALUES, "any_of": _VALUES, "cpus": _VALUES}
        )
        | _VALUES,
    },
)
_DSTACK = st.fixed_dictionaries(
    {"type": st.just("task")},
    optional={
        "name": _SCALARS,
        "commands": _VALUES,
        "env": _VALUES,
        "max_duration": _VALUES,
        "artifacts": _VALUES,
        "resources": st.fixed_dictionaries({}, optional={"gpu": _VALUES, "disk": _VALUES, "memory": _VALUES}) | _VALUES,
    },
)


def _carry(folder: Path, text: str) -> Conversion | None:
    path = folder / "source"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        conversion = convert(path)
    except UserError:
        return None
    parse_text(conversion.text, "lease.yaml")
    return conversion


@settings(max_examples=150, deadline=None, suppress_health_check=_QUIET)
@given(value=_SKY | _DSTACK)
def test_any_yaml_is_refused_or_parses(tmp_path: Path, value: object) -> None:
    _carry(tmp_path, yaml.safe_dump(value, allow_unicode=False))


_LINES = st.sampled_from(
    [
        "#SBATCH -J ",
        "#SBATCH --gres=gpu:",
        "#SBATCH --time=",
        "#SBATCH --export=A=",
        "export A=",
        "export B=$",
        "srun -n ",
    ]
    + [
        "srun --mpi ",
        "python t.py --out ",
        "module load ",
        "conda activate ",
        "if [[ ",
        "fi",
        "cat <<EOF",
        "EOF",
        "done",
    ]
    + ["source ", "pip install ", "cd $SLURM_SUBMIT_DIR", "echo 'it", "\\", "TOKEN=", "f() {", "}", "$SLURM_JOB_ID"]
)


@settings(max_examples=200, deadline=None, suppress_health_check=_QUIET)
@given(parts=st.lists(st.tuples(_LINES, st.text(st.characters(codec="utf-8"), max_size=12)), max_size=12))
def test_any_script_parses(tmp_path: Path, parts: list[tuple[str, str]]) -> None:
    body = "\n".join(start + rest for start, rest in parts)
    assert _carry(tmp_path, f"#!/bin/bash\n#SBATCH -N 1\n{body}\n") is not None or "\0" in body


@settings(max_examples=100, deadline=None, suppress_health_check=_QUIET)
@given(secret=st.from_regex(r"\A(?:hf_[A-Za-z0-9]{20,34}|sk-[A-Za-z0-9]{20,40}|[A-Za-z0-9+/]{12,40})\Z"))
def test_no_credential_is_written_out(tmp_path: Path, secret: str) -> None:
    assume(not secret.islower() and not secret.isdigit())
    scripts = f"export MY_TOKEN={secret}\nAPI_KEY='{secret}' python t.py --password {secret}\n"
    scripts += f"if true; then\n  echo {secret}\nfi"
    sources = (
        f"#!/bin/bash\n#SBATCH --export=WANDB_API_KEY={secret}\n{scripts}\n",
        yaml.safe_dump({"run": scripts, "envs": {"HF_TOKEN": secret}, "secrets": {"X": secret}}),
        yaml.safe_dump({"type": "task", "commands": scripts.split("\n"), "env": [f"MY_TOKEN={secret}"]}),
    )
    for text in sources:
        conversion = _carry(tmp_path, text)
        assert conversion is not None
        assert secret not in conversion.text
        assert not any(secret in note for note in conversion.converted + conversion.not_converted)


def test_a_config_that_only_has_a_key_called_run_is_no_skypilot_task(carried: Carried) -> None:
    with pytest.raises(UserError) as caught:
        carried("hydra.yaml", "defaults: []\nrun:\n  dir: logs/x\nsweep:\n  dir: y\n")
    assert caught.value.code == "init.unknown_format"


def test_a_checkpoint_to_read_is_not_taken_for_an_output(carried: Carried) -> None:
    _, job = carried("sky.yaml", "run: python export.py --checkpoint-path /x/ckpt --output_dir out\n")
    assert job.run == 'python export.py --checkpoint-path /x/ckpt --output_dir "$LEASE_OUT"'


def test_patterns_of_sed_are_not_taken_for_paths(carried: Carried) -> None:
    conversion, _ = carried("sky.yaml", 'run: sed -i "s/^a*/max_iter/" x && python t.py "$D"/y --data=/mnt/z\n')
    assert [note for note in conversion.not_converted if "fresh box" in note] == [
        "line 1: /mnt/z: kept, but a fresh box does not have it"
    ]


@pytest.mark.parametrize(
    "harmless", ["COCO/mask_rcnn_R_50_FPN_3x/137849600", "git checkout 0123456789abcdef0123456789abcdef01234567"]
)
def test_what_only_resembles_a_key_is_left_alone(carried: Carried, harmless: str) -> None:
    _, job = carried("sky.yaml", f"run: echo {harmless}\n")
    assert job.run == f"echo {harmless}"
    assert job.secrets == ()
