"""Projects that are empty, broken, huge, looped or hostile: a look never fails, and nothing of them runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.text.project_files import Limits
from leasehold.lifecycle.init.write.write import write_job
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Job

Started = Callable[..., tuple[object, str, Job]]
Project = Callable[..., Path]


def _job_of(folder: Path) -> Job:
    return parse_text(write_job(look_at(folder)), "lease.yaml")


def test_an_empty_folder_gives_a_job_that_refuses_at_home(started: Started) -> None:
    _, text, job = started({})
    assert "FILL IN: no file was found" in text
    assert "exit 1" in job.run
    assert "exit 1" in job.smoke
    assert [artifact.pattern for artifact in job.artifacts] == ["**"]


def test_notebooks_alone_are_named_with_the_way_to_a_script(started: Started) -> None:
    _, text, _ = started({"study.ipynb": '{"cells": []}'})
    assert "jupyter nbconvert --to script study.ipynb" in text


def test_a_file_with_a_syntax_error_is_passed_over_and_named(started: Started) -> None:
    _, text, job = started({"broken.py": "def (:\n", "train.py": "import torch\n"})
    assert "not read: broken.py (not valid Python at line 1)" in text
    assert job.run == "python train.py"


def test_binary_and_huge_files_are_passed_over(started: Started) -> None:
    _, text, job = started({"data.py": b"\0\1\2" * 10, "big.py": b"x = 1\n" * 200_000, "train.py": "import torch\n"})
    assert "data.py (binary)" in text
    assert "big.py (larger than 512 KiB)" in text
    assert job.run == "python train.py"


def test_text_in_another_encoding_is_read(project: Project) -> None:
    folder = project({"train.py": b"# caf\xe9\nimport torch\ntorch.save({}, 'r\xe9sum\xe9.pt')\n"})
    assert look_at(folder).entry is not None
    _job_of(folder)


def test_links_are_not_followed_and_loops_end(project: Project) -> None:
    folder = project({"train.py": "import torch\n"})
    (folder / "loop").symlink_to(folder)
    (folder / "self").symlink_to("self")
    (folder / "outside.py").symlink_to("/etc/passwd")
    facts = look_at(folder)
    assert facts.files_seen == 1
    assert not facts.truncated


def test_pipes_and_unreadable_files_do_not_hang_a_look(project: Project) -> None:
    folder = project({"train.py": "import torch\n"})
    os.mkfifo(folder / "README.md")
    os.mkfifo(folder / "pipe.py")
    assert _job_of(folder).run == "python train.py"


def test_nothing_of_the_project_is_executed(project: Project, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    code = f"open({str(trap)!r}, 'w').close()\n"
    folder = project({"train.py": f"import torch\n{code}", "setup.py": code, "conftest.py": code, "__init__.py": code})
    _job_of(folder)
    assert not trap.exists()


def test_a_virtual_environment_is_not_looked_into(project: Project) -> None:
    folder = project({"myenv/pyvenv.cfg": "", "myenv/lib/train.py": "import torch\n"})
    assert look_at(folder).entry is None


def test_a_look_is_bounded(project: Project) -> None:
    folder = project({f"pkg{number}/train_{number}.py": "import torch\n" for number in range(60)})
    facts = look_at(folder, Limits(files=20, total_bytes=100))
    assert facts.files_seen <= 20
    assert facts.truncated
    assert "only a part of it was looked at" in write_job(facts)


@pytest.fixture
def usual_depth() -> Iterator[None]:
    """Recurse as deep as a plain Python does: hypothesis, in the same process, may have raised that."""
    raised = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(raised)


@pytest.mark.parametrize(
    "code",
    [
        "-" * 100_000 + "1",
        "(" * 5_000,
        "a." * 50_000 + "b",
        "1+" * 60_000 + "1",
        "if a: pass\n" + "elif a: pass\n" * 9_000,
    ],
    ids=["minus", "parentheses", "dots", "sum", "elif"],
)
def test_code_nested_beyond_the_parser_is_passed_over(started: Started, code: str, usual_depth: None) -> None:
    _, text, job = started({"deep.py": code[:500_000], "train.py": "import torch\n"})
    assert "not read: deep.py" in text
    assert job.run == "python train.py"


def test_names_that_shells_and_yaml_mistake_still_parse(project: Project, odd_name: str) -> None:
    folder = project(
        {f"{odd_name.strip()}.py": "import torch\nif __name__ == '__main__':\n    torch.save({}, 'a.pt')\n"}
    )
    target = folder.parent / odd_name
    folder.rename(target)
    _job_of(target)


def test_a_name_that_is_no_utf8_is_shown_escaped(project: Project) -> None:
    folder = project({"train.py": "import torch\n"})
    os.mkdir(os.fsencode(folder) + b"/caf\xe9")
    with open(os.fsencode(folder) + b"/caf\xe9/bad\xff.py", "wb") as file:
        file.write(b"def (:\n")
    text = write_job(look_at(folder))
    assert "\\udcff" in text
    parse_text(text, "lease.yaml")


def test_constants_of_the_project_do_not_become_shell(started: Started) -> None:
    code = (
        "import torch\nimport argparse\n"
        "p = argparse.ArgumentParser()\np.add_argument('--out', default='$(touch x).pt')\nargs = p.parse_args()\n"
        "torch.save({}, args.out)\ntorch.save({}, '$(reboot)*.pt')\ntorch.save({}, '`id`/a.pt')\n"
    )
    _, _, job = started({"train.py": code})
    assert "$(touch" not in job.run
    assert "$(reboot" not in job.run
    assert "'`id`'" in job.run  # a folder of that name, quoted


def test_yaml_aliases_in_configs_do_not_explode(project: Project) -> None:
    bomb = "a: &a {x: 1, max_steps: 2}\n" + "".join(f"b{n}: &b{n} [{','.join(['*a'] * 50)}]\n" for n in range(50))
    loop = "top: &t\n  again: *t\n  epochs: 3\n"
    main = "import hydra\nimport torch\n@hydra.main(config_path='conf')\ndef main(cfg): ...\n"
    folder = project({"train.py": main, "conf/a.yaml": bomb, "conf/b.yaml": loop})
    names = [flag.name for flag in look_at(folder).flags]
    assert "a.max_steps" in names
    assert "top.epochs" in names


_NAMES = st.sampled_from(
    ["train.py", "main.py", "src/a/train.py", "README.md", "Makefile", "requirements.txt", "pyproject.toml"]
    + ["setup.py", "environment.yml", "conf/config.yaml", "scripts/run.sh", "n.ipynb", "lib/x.py"]
)
_PIECES = st.sampled_from(
    ["import torch\n", "import wandb, hydra\n", "torch.save({'a': 1}, ", "args.output_dir", "f'{x}/", "'a.pt')\n"]
    + ["open(", "'w') as f:\n", "p.add_argument('--epochs', default=", "if __name__ == '__main__':\n", "    ", "\\\n"]
    + ["[", "]", "{", "}", "**", "/", "..", "\n", "'", '"', "os.environ['LEASE_OUT']", "python train.py --x ", "\t"]
    + ["\x00", "é", "class A:\n    x: int = 1\n", "@hydra.main(config_path='conf')\n", "def f(out='x/\\ue001'): pass\n"]
    + ["%s", "trainer.max_steps: 3\n", "- &a [*a]\n", "[project]\n", "lambda: ", "np.savez('x', ", "\u2028", ": "]
)
_CONTENT = st.one_of(st.binary(max_size=200), st.lists(_PIECES, max_size=25).map(lambda parts: "".join(parts).encode()))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(_NAMES, _CONTENT, max_size=6))
def test_any_tree_gives_a_job_that_parses(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    _job_of(folder)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=30), path=st.text(max_size=30), key=st.text(max_size=12), flag=st.text(max_size=12))
def test_any_constant_gives_a_job_that_parses(
    tmp_path_factory: pytest.TempPathFactory, name: str, path: str, key: str, flag: str
) -> None:
    folder = tmp_path_factory.mktemp("constant")
    code = (
        "import torch, argparse, json\np = argparse.ArgumentParser()\n"
        f"p.add_argument({'--' + flag!r}, required=True)\np.add_argument('--out', default={name!r})\n"
        f"args = p.parse_args()\ntorch.save({{{key!r}: 1}}, {path!r})\ntorch.save(1, args.out)\n"
        f"json.dump({{}}, open(args.out + {path!r}, 'w'))\n"
    )
    (folder / "train.py").write_bytes(code.encode("utf-8", "surrogatepass"))
    _job_of(folder)
