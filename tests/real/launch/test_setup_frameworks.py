"""AD9 with the real pip: a set-up must not swap the framework that the image brought, and who does is found out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Done, Front, fake_cards, front
from tests.support.lives import eventually
from tests.support.wheelhouse import Venv, torch_wheel, wheel

HAS, PINNED = "2.1.0+cu121", "2.0.1"
TRAIN = (
    "import json, os, torch\nprint('step 1/1 loss 0.5 on', torch.__version__, flush=True)\n"
    "json.dump({'torch': torch.__version__}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a wheelhouse: the image's torch, others, and packages that want this or that."""
    place = tmp_path_factory.mktemp("wheels")
    torch_wheel(place, HAS, "12.1", ["triton==2.1.0", "nvidia-cudnn-cu12==8.9"])
    torch_wheel(place, PINNED, "11.7")
    torch_wheel(place, "2.2.0", "", sees=False)
    for name, version, requires in (
        ("triton", "2.1.0", ()), ("triton", "3.0.0", ()), ("nvidia-cudnn-cu12", "8.9", ()),
        ("nvidia-cudnn-cu12", "9.1", ()), ("torchvision", "0.15.2", ("torch==2.0.1",)),
        ("torchvision", "0.16.0", ("torch==2.1.0",)), ("timm", "1.0", ("torch>=1.7",)),
        ("hungry", "1.0", ("torch==2.0.1",)),
    ):  # fmt: skip
        wheel(place, name, version, requires)
    return place


@pytest.fixture(scope="module")
def bare_image(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Venv:
    """Make the interpreter of a rented image once: torch 2.1 for CUDA 12.1 is there."""
    venv = Venv(tmp_path_factory.mktemp("box") / "image venv", wheels)
    done = venv.pip("install", "-q", f"torch=={HAS}")
    assert done.returncode == 0, done.stderr
    venv.keep()
    return venv


@pytest.fixture
def image(bare_image: Venv) -> Venv:
    """Give that image as it was delivered."""
    bare_image.restore()
    return bare_image


@pytest.fixture
def me(tmp_path: Path, image: Venv) -> Iterator[Front]:
    """Give a person whose home and project have spaces, on a machine whose python is the image's."""
    (tmp_path / "a person").mkdir()
    with front(tmp_path / "a person", image.environment(), home="lease home") as person:
        person.write("train.py", TRAIN)
        yield person


def run(me: Front, setup: str, *words: str, **job: object) -> Done:
    me.job(setup=setup, run="python train.py", **job)
    return me.lease("run", *words)


def home_result(done: Done) -> dict[str, str]:
    return dict(json.loads((Path(done.out.strip()) / "cells" / "main" / "result.json").read_text()))


def test_without_us_the_same_line_swaps_the_torch(me: Front, image: Venv) -> None:
    requirements = me.write("requirements.txt", f"torch=={PINNED}\ntimm\n")
    assert image.pip("install", "-q", "-r", str(requirements)).returncode == 0
    assert image.version("torch") == PINNED


def test_a_plain_install_of_pinned_requirements_keeps_the_images_torch(me: Front, image: Venv) -> None:
    me.write("requirements.txt", f"\ufeff# ours\r\ntorch == {PINNED} ; python_version > '3'\r\ntimm\r\n")
    done = run(me, "pip install -r requirements.txt")
    assert done.code == 0, done.said
    assert (image.version("torch"), image.version("timm")) == (HAS, "1.0")
    assert home_result(done) == {"torch": HAS}
    assert f"before set-up this box has torch {HAS} (CUDA 12.1); set-up keeps it" in done.said
    assert f"left out: requirements.txt:2 torch == {PINNED} ; python_version > '3'" in done.said
    assert "env after set-up: passed" in done.said
    (judged,) = [event for event in me.events("gate_judged") if event["gate"] == "env"]
    assert judged["outcome"] == "passed" and judged["attempt"] == 1
    assert f"torch is still {HAS} (CUDA 12.1)" in [finding["what"] for finding in judged["findings"]]
    assert (me.project / "requirements.txt").read_bytes().startswith(b"\xef\xbb\xbf# ours\r\ntorch == ")


def test_nested_files_constraints_and_companions_are_kept_too(me: Front, image: Venv) -> None:
    me.write("reqs/all.txt", "-r base.txt\n-c pins/c.txt\ntimm\n")
    me.write("reqs/base.txt", "torch>=2.0,\\\n  <2.1\ntriton==3.0.0\nnvidia_cudnn.cu12==9.1\ntorchvision==0.15.2\n")
    me.write("reqs/pins/c.txt", f"torch=={PINNED}\n")
    done = run(me, "cd reqs && python -m pip install --requirement=all.txt")
    assert done.code == 0, done.said
    seen = {name: image.version(name) for name in ("torch", "triton", "nvidia-cudnn-cu12", "torchvision", "timm")}
    assert seen == {
        "torch": HAS, "triton": "2.1.0", "nvidia-cudnn-cu12": "8.9", "torchvision": "0.16.0", "timm": "1.0",
    }  # fmt: skip
    assert "reqs/base.txt:5 torchvision==0.15.2 -> torchvision" in done.said


def test_a_script_may_name_the_filtered_file_itself(me: Front, image: Venv) -> None:
    me.write("requirements.txt", f"torch=={PINNED}\ntimm\n")
    me.write("install.sh", 'pip install -r "${LEASE_REQUIREMENTS:-requirements.txt}"\n')
    done = run(me, "sh install.sh")
    assert done.code == 0, done.said
    assert f"left out: of $LEASE_REQUIREMENTS: requirements.txt:1 torch=={PINNED}" in done.said
    assert (image.version("torch"), image.version("timm")) == (HAS, "1.0")


def test_a_pin_that_no_copy_can_filter_fails_loudly_and_says_what_to_do(me: Front, image: Venv) -> None:
    me.write("requirements.txt", f"torch=={PINNED}\n")
    me.write("install.sh", "pip install -r requirements.txt\n")
    done = run(me, "sh install.sh")
    assert done.code == 6, done.said
    assert "leasehold: setup failed with exit code 1" in done.said
    assert "$LEASE_REQUIREMENTS" in done.said and "setup_frameworks: replace" in done.said
    assert image.version("torch") == HAS


def test_a_package_that_needs_another_torch_fails_loudly(me: Front, image: Venv) -> None:
    done = run(me, "pip install hungry")
    assert done.code == 6, done.said
    assert image.version("torch") == HAS


def test_a_job_may_ask_for_its_own_torch(me: Front, image: Venv) -> None:
    me.write("requirements.txt", f"torch=={PINNED}\n")
    done = run(me, "pip install -r requirements.txt", setup_frameworks="replace")
    assert done.code == 0, done.said
    assert image.version("torch") == PINNED
    assert home_result(done) == {"torch": PINNED}
    (judged,) = [event for event in me.events("gate_judged") if event["gate"] == "env"]
    swapped = f"torch was {HAS} (CUDA 12.1) and is {PINNED} (CUDA 11.7) after set-up (setup_frameworks: replace)"
    assert swapped in [finding["what"] for finding in judged["findings"]]


SWAP = f"PIP_CONSTRAINT= pip install torch=={PINNED}"


def test_a_swap_by_another_route_is_caught_before_the_trainer_starts(me: Front, image: Venv) -> None:
    done = run(me, SWAP)
    assert done.code == 6, done.said
    what = f"torch was {HAS} (CUDA 12.1) and is {PINNED} (CUDA 11.7) after set-up"
    assert f"the env gate refused after set-up: {what}" in done.said
    assert f"-m pip install --no-deps torch=={HAS} --index-url https://download.pytorch.org/whl/cu121`" in done.said
    assert "step 1/1" not in done.said
    assert me.gates()["env"] == "refused"
    shown = me.lease("check", "env")
    assert shown.code == 3, shown.said
    assert f"after set-up: {what}" in shown.said
    # put back as the hint says, the identical command goes on without another set-up
    assert image.pip("install", "-q", "--no-deps", f"torch=={HAS}").returncode == 0
    again = me.lease("run")
    assert again.code == 0, again.said
    assert home_result(again) == {"torch": HAS}


def test_the_box_refuses_alone_and_the_evidence_comes_home_later(me: Front, image: Venv) -> None:
    me.write("setup.sh", f"until [ -e '{me.folder}/go' ]; do sleep 0.05; done\n{SWAP}\n")
    done = run(me, "sh setup.sh", "--detach")
    assert done.code == 0, done.said
    assert "env" not in me.gates()
    (name,) = me.runs_on_box()
    (me.folder / "go").touch()  # nobody is connected now
    status = me.box_root / "active" / name / "status.json"
    assert eventually(lambda: json.loads(status.read_text())["state"] == "failed")
    watched = me.lease("watch", name)
    assert "env after set-up: refused" in watched.said, watched.said
    assert f"  NO  torch was {HAS} (CUDA 12.1) and is {PINNED} (CUDA 11.7) after set-up" in watched.said
    assert me.gates()["env"] == "refused"
    me.lease("watch", name)
    assert len([event for event in me.events("gate_judged") if event["gate"] == "env"]) == 1  # told once


def test_a_person_may_pass_by_the_gate_after_setup_with_a_reason(me: Front) -> None:
    done = run(me, SWAP, "--skip-gate", "env", "--because", "I know this build")
    assert done.code == 0, done.said
    (judged,) = [event for event in me.events("gate_judged") if event["gate"] == "env"]
    assert (judged["outcome"], judged["skipped"]) == ("refused", True)


def test_a_removed_framework_is_caught(me: Front) -> None:
    done = run(me, "pip uninstall -q -y torch")
    assert done.code == 6, done.said
    assert f"torch was {HAS} (CUDA 12.1) and is gone after set-up" in done.said
    assert "cannot import torch" in done.said


def test_a_cpu_build_is_found_after_setup_where_a_card_is_asked_for(me: Front, tmp_path: Path) -> None:
    cards = fake_cards(tmp_path, "NVIDIA H100 80GB HBM3, 81559")["PATH"].split(":")[0]
    me.job(
        setup="PIP_CONSTRAINT= pip install torch==2.2.0", run="python train.py", setup_frameworks="replace",
        resources={"gpu": {}},
    )  # fmt: skip
    done = me.lease("run", PATH=f"{cards}:{me.environment['PATH']}")
    assert done.code == 6, done.said
    assert "torch.cuda.is_available() is False (this torch is a CPU build)" in done.said
    assert "step 1/1" not in done.said


def test_an_environment_that_setup_makes_is_left_its_own_torch(me: Front, image: Venv) -> None:
    me.write("requirements.txt", f"torch=={PINNED}\n")
    me.job(
        setup="python -m venv .venv && .venv/bin/pip install -r requirements.txt",
        run=". .venv/bin/activate && python train.py",
    )
    done = me.lease("run")
    assert done.code == 0, done.said
    assert home_result(done) == {"torch": PINNED}
    assert image.version("torch") == HAS


def test_what_passed_is_not_imported_again_while_nothing_changed(me: Front, image: Venv) -> None:
    done = run(me, "true")
    assert "env after set-up: passed (" in done.said and "as before" not in done.said, done.said
    again = me.lease("run", "--again")
    assert "checks), as before" in again.said, again.said
    changed = run(me, "pip install timm")  # another run, and now something else is installed
    assert changed.code == 0, changed.said
    assert "as before" not in changed.said


def test_an_attempt_killed_in_setup_does_not_take_its_swap_for_the_image(me: Front, image: Venv) -> None:
    me.write("kill.sh", f"{SWAP}\n[ -e '{me.folder}/killed' ] || {{ : > '{me.folder}/killed'; kill -9 $PPID; }}\n")
    done = run(me, "sh kill.sh; true")
    assert done.code == 6, done.said
    assert f"torch was {HAS} (CUDA 12.1) and is {PINNED}" in done.said
