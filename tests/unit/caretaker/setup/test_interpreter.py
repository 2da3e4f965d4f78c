"""Which interpreter a command line would start, and what that interpreter says. Runs under PyPy too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

from leasehold.caretaker.attempt.platform_shell import Outfit
from leasehold.caretaker.attempt.short_command import run_dressed
from leasehold.caretaker.setup import interpreter as environment
from leasehold.caretaker.setup.interpreter import check, starter_of
from leasehold.caretaker.wire.refused import Refused


def interpreter_of(command: str) -> Optional[str]:
    starter = starter_of(command)
    return starter.interpreter if starter else None


@pytest.mark.parametrize(
    "command, interpreter",
    [
        ("python train.py", "python"),
        ("python3 x.py --lr 0.1", "python3"),
        ("exec python3 -I -S train.py", "python3"),
        ("python3.10 -m torch.distributed.run t.py", "python3.10"),
        ("pypy3 x.py", "pypy3"),
        ("/opt/conda/bin/python train.py", "/opt/conda/bin/python"),
        ("~/venv/bin/python train.py", "~/venv/bin/python"),
        ("'/opt/my env/bin/python' train.py", "/opt/my env/bin/python"),
        ('"/opt/my env/bin/python3" train.py', "/opt/my env/bin/python3"),
        ("/opt/my\\ env/bin/python train.py", "/opt/my env/bin/python"),
        ("cd a && CUDA_VISIBLE_DEVICES=0 python -u t.py", "python"),
        ("A=1 B='two words' python t.py", "python"),
        ("env OMP_NUM_THREADS=1 python t.py", "python"),
        ("nohup python t.py > log 2>&1 &", "python"),
        ("set -e\ncd src\npython t.py", "python"),
        ("for s in 1 2; do python t.py --seed $s; done", "python"),
        ("echo start; python t.py || exit 1", "python"),
        ("conda run -n train python t.py", "python"),
        ("python -c 'a = 1; print(a)'", "python"),
        ("# python2 was here\npython3 t.py", "python3"),
        ("cat list | xargs -n1 python t.py", "python"),
        ("docker compose up -d && python t.py", "python"),
        # nobody to ask
        ("./run.sh", None),
        ("bash train.sh python", "python"),  # a word that looks like one is one: better asked once too often
        ("uv run python t.py", None),
        ("poetry run torchrun t.py", None),
        ("docker run image python t.py", None),
        ("ipython t.py", None),
        ("", None),
        ("   # python t.py", None),
    ],
)
def test_the_interpreter_of_a_command_line(command: str, interpreter: Optional[str]) -> None:
    assert interpreter_of(command) == interpreter


def test_an_unclosed_quote_is_no_reason_to_fall_over() -> None:
    assert interpreter_of("python 'unclosed") == "python"


@pytest.mark.parametrize(
    "command, line",
    [
        ("cd a && CUDA_VISIBLE_DEVICES=0 python -u t.py", 'cd a 2>/dev/null; CUDA_VISIBLE_DEVICES=0 python "$0" "$@"'),
        (". venv/bin/activate; python t.py", 'command . venv/bin/activate 2>/dev/null; python "$0" "$@"'),
        ("conda run -n e python t.py", 'conda run -n e python "$0" "$@"'),
        ("conda run -n e torchrun t.py", 'conda run -n e python "$0" "$@"'),
        ("nohup nice -n 5 python t.py", 'python "$0" "$@"'),
        ("if true; then python t.py; fi", 'python "$0" "$@"'),
        ("X=$(rm -rf /) python t.py", 'python "$0" "$@"'),  # what runs a program of its own is not run twice
        ("rm -rf build && python t.py", 'python "$0" "$@"'),
        ("~/v/bin/python t.py", '~/v/bin/python "$0" "$@"'),
        ('"$CONDA_PREFIX/bin/python" t.py', '"$CONDA_PREFIX/bin/python" "$0" "$@"'),
    ],
)
def test_only_what_chooses_the_interpreter_is_repeated(command: str, line: str) -> None:
    starter = starter_of(command)
    assert starter is not None
    assert starter.line() == line


# ---------------------------------------------------------------- launchers


def launcher(folder: Path, name: str, first_line: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(first_line + "\nprint('hello')\n")
    (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "command", ["torchrun --nproc-per-node 2 t.py", "A=1 accelerate launch t.py", "deepspeed t.py"]
)
def test_a_launcher_stands_for_its_own_environments_python(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torchrun", "accelerate", "deepspeed"):
        launcher(tmp_path / "bin", name, "#!/opt/train/bin/python3.11")
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    assert interpreter_of(command) == "/opt/train/bin/python3.11"


def test_a_launcher_by_its_path_needs_no_path_variable(tmp_path: Path) -> None:
    place = launcher(tmp_path / "e", "torchrun", "#!/opt/x/python -s") / "torchrun"
    assert interpreter_of("%s t.py" % place) == "/opt/x/python"


def test_a_launcher_found_by_env_means_the_first_python(tmp_path: Path) -> None:
    place = launcher(tmp_path / "e", "torchrun", "#!/usr/bin/env python3") / "torchrun"
    assert interpreter_of("%s t.py" % place) == "python3"


def test_a_launcher_that_is_a_shell_script_has_its_python_beside_it(tmp_path: Path) -> None:
    place = launcher(tmp_path / "e", "torchrun", "#!/bin/sh") / "torchrun"
    assert interpreter_of("%s t.py" % place) == "python"
    (tmp_path / "e" / "python").symlink_to(sys.executable)
    assert interpreter_of("%s t.py" % place) == str(tmp_path / "e" / "python")


def test_a_launcher_that_is_not_there_means_plain_python() -> None:
    assert interpreter_of("/no/such/torchrun t.py") == "python"


# ---------------------------------------------------------------- asking


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Give a `python` in a folder with a space; a wrapper, so that no virtual environment is needed."""
    place = tmp_path / "my env" / "bin" / "python"
    place.parent.mkdir(parents=True)
    place.write_text('#!/bin/sh\nexec "%s" -S "$@"\n' % sys.executable)
    place.chmod(0o755)
    return place


def ask(command: str, **more: Any) -> Dict[str, Any]:
    return check({"command": command, **more})


def test_the_interpreter_says_what_it_is_and_what_it_imports(python: Path) -> None:
    answer = ask("'%s' train.py" % python, modules=["json", "no_such_module_x"])
    assert answer["problem"] == ""
    facts = answer["facts"]
    assert facts["version"] == sys.version.split()[0]
    assert facts["modules"]["json"]["ok"] is True
    assert facts["modules"]["no_such_module_x"] == {
        "ok": False,
        "error": "ModuleNotFoundError: No module named 'no_such_module_x'",
    }


def test_the_jobs_variables_and_its_cd_reach_the_interpreter(python: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "framework.py").write_text("import os\n__version__ = os.environ['FLAVOUR'] + os.getcwd()\n")
    command = "cd '%s' && FLAVOUR=sweet '%s' train.py" % (tmp_path, python)
    answer = ask(command, modules=["framework"], env={"PYTHONPATH": str(tmp_path / "lib")})
    assert answer["facts"]["modules"]["framework"]["version"] == "sweet" + os.path.realpath(str(tmp_path))


def test_a_tilde_and_a_variable_are_read_as_the_shell_reads_them(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(python.parent.parent))
    assert ask("~/bin/python train.py")["problem"] == ""
    assert ask('"$WHERE/bin/python" train.py', env={"WHERE": str(python.parent.parent)})["problem"] == ""


@pytest.mark.parametrize(
    "source, error",
    [
        ("raise RuntimeError('libcudart.so.12: cannot open')", "RuntimeError: libcudart.so.12: cannot open"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("print('noise'); raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_an_import_may_do_anything_and_that_is_the_answer(
    python: Path, tmp_path: Path, source: str, error: str
) -> None:
    (tmp_path / "framework.py").write_text(source + "\n")
    answer = ask("'%s' t.py" % python, modules=["framework", "os"], env={"PYTHONPATH": str(tmp_path)})
    assert answer["facts"]["modules"]["framework"]["error"].startswith(error)
    assert answer["facts"]["modules"]["os"]["ok"]


def test_an_interpreter_that_dies_or_is_not_there_says_its_last_words(tmp_path: Path) -> None:
    gone = ask("/no/such/python t.py")
    assert gone["problem"].startswith("/no/such/python exited with 127: ")
    assert "not found" in gone["problem"]
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\necho first; echo 'GLIBC_2.34 not found'; exit 9\n")
    dying.chmod(0o755)
    assert ask("%s t.py" % dying)["problem"].endswith("exited with 9: first / GLIBC_2.34 not found")


def test_an_interpreter_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_TIMEOUT_S", 0.2)
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    assert "did not answer in" in ask("%s t.py" % slow)["problem"]


def test_without_an_interpreter_nothing_is_run() -> None:
    assert ask("./run.sh") == {"problem": "no Python interpreter is named in the command, so there is nothing to ask"}


# ---------------------------------------------------------------- torch

TORCH = """
__version__ = "2.9.0"
class version:
    cuda = %(build)r
class cuda:
    is_available = staticmethod(lambda: %(sees)r)
    device_count = staticmethod(lambda: 2)
    get_arch_list = staticmethod(lambda: ["sm_80", "compute_90"])
    get_device_capability = staticmethod(lambda index: (8, 6))
    get_device_name = staticmethod(lambda index: "card %%d" %% index)
"""


@pytest.mark.parametrize("build, sees", [(None, False), ("12.4", False), ("12.4", True)])
def test_torch_is_asked_for_its_build_and_its_cards(python: Path, tmp_path: Path, build: object, sees: bool) -> None:
    (tmp_path / "torch.py").write_text(TORCH % {"build": build, "sees": sees})
    answer = ask("'%s' t.py" % python, modules=["torch"], env={"PYTHONPATH": str(tmp_path)})
    torch = answer["facts"]["torch"]
    assert (torch["cuda_build"], torch["cuda_available"]) == (build, sees)
    assert [device["name"] for device in torch["devices"]] == (["card 0", "card 1"] if sees else [])


def test_the_probe_stands_alone_and_speaks_one_line(python: Path) -> None:
    """It is run by the user's interpreter, which has none of our modules."""
    done = subprocess.run(
        [str(python), "-I", environment.env_probe.__file__, "leasehold"], stdout=subprocess.PIPE, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if line]
    assert line.startswith(b"LEASEHOLD-ENV {")
    assert b"No module named 'leasehold'" in line


def test_a_home_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    with pytest.raises(Refused, match="HOME is .*gone, which is no folder on this box") as refused:
        check({"command": "python train.py"}, str(tmp_path))
    assert refused.value.code == "box.no_home" and "set HOME" in refused.value.hint


def test_a_short_command_runs_without_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    done, problem = run_dressed(Outfit(str(tmp_path), {}, {}), ["/bin/pwd"], 60)
    assert (done.returncode, done.stdout.strip(), problem) == (0, b"/", "")
