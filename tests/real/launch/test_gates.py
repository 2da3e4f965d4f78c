"""The gates on real conditions: disks that are full, cards that are wrong, interpreters that lack their framework."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.facts import profiles
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import find_box
from leasehold.lifecycle.preflight import gatekeeper
from leasehold.model.job.job import Artifact, Job
from leasehold.model.run.verdict import Verdict
from tests.support.frameworks import python_with
from tests.support.front import Front, Tmpfs, fake_cards, front, program
from tests.support.lives import eventually
from tests.support.platforms import volume

TRAIN = "import json, os\nprint('step 1/1 loss 0.5', flush=True)\n"
WRITE = TRAIN + "json.dump({'loss': 0.5}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
CPU_TORCH = """
__version__ = "2.9.0+cpu"
class version:
    cuda = None
class cuda:
    is_available = staticmethod(lambda: False)
"""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose project writes what it promises."""
    with front(tmp_path) as person:
        person.write("train.py", WRITE)
        person.job()
        yield person


# ---------------------------------------------------------------- disks


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a mount point."""
    (tmp_path / "small disk").mkdir()
    return tmp_path / "small disk"


@pytest.mark.namespaces
def test_a_disk_without_inodes_is_refused_with_the_numbers(me: Front, place: Path) -> None:
    done = me.lease("check", "audit", "--root", str(place), disk=Tmpfs(place, "size=2g,nr_inodes=900"))
    assert done.code == 3, done.said
    assert done.out == "audit: refused\n"
    (line,) = [line for line in done.said.splitlines() if line.startswith("  NO")]
    assert line.startswith("  NO  inode budget 2,0") and line.endswith(" free")
    assert 0 < int(line.split("against ")[1].split(" ")[0]) < 900
    assert "inodes run out before bytes" in done.said
    assert f"ok  {place}: 2.1 GB free, 0% used (tmpfs)" in done.said


@pytest.mark.namespaces
def test_a_full_disk_is_refused_and_its_hogs_are_named(me: Front, place: Path) -> None:
    disk = Tmpfs(place, "size=128m", fill_bytes=122 << 20)
    done = me.lease("check", "audit", "--root", str(place), disk=disk)
    assert done.code == 3, done.said
    assert "[bytes >= 95% used]" in done.said
    assert "disk budget 1.1 GB (1.1 GB for logs; checkpoint size not given) against " in done.said
    hogs = [line.split() for line in done.said.splitlines() if "files  " in line]
    assert hogs[0] == ["127.9", "MB", "1", "files", f"{place}/filler".split()[0], *f"{place}/filler".split()[1:]]


@pytest.mark.namespaces
def test_hogs_are_looked_for_beside_our_folder_and_it_is_never_one(me: Front, place: Path) -> None:
    disk = Tmpfs(place, "size=128m", fill_bytes=122 << 20)
    done = me.lease("check", "audit", "--root", str(place / "ours"), disk=disk)
    assert done.code == 3, done.said
    assert f"biggest below {place}:" in done.said
    hogs = [line for line in done.said.splitlines() if " files  " in line]
    assert [hog.rpartition("/")[2] for hog in hogs] == ["filler"]


@pytest.mark.namespaces
def test_a_small_disk_that_only_we_are_on_has_no_hogs(me: Front, place: Path) -> None:
    done = me.lease("check", "audit", "--root", str(place), disk=Tmpfs(place, "size=64m"))
    assert done.code == 3 and "disk budget" in done.said
    assert "biggest below" not in done.said
    deep = me.lease("check", "audit", "--deep", "--root", str(place), disk=Tmpfs(place, "size=64m"))
    assert f"{place}/caretaker" in deep.said  # who asks sees all


def test_several_refusals_have_each_its_hint_below_it(me: Front) -> None:
    me.job(resources={"gpu": {"name": "A100"}, "disk": "900000GB"})
    done = me.lease("run")
    assert done.code == 3
    seen = done.said.partition("  seen: ")[2].splitlines()
    assert [line.strip().split()[0] for line in seen[:4]] == ["disk", "->", "the", "->"]
    assert seen[4] == "  hint: lease check audit shows all it read"


@pytest.mark.namespaces
def test_a_run_on_a_full_disk_is_refused_before_anything_is_launched(me: Front, place: Path) -> None:
    me.job(checkpoint={"size": "400MB"})
    done = me.lease("run", "--root", str(place), disk=Tmpfs(place, "size=1700m"))
    assert done.code == 3, done.said
    assert "error[audit.refused]: the audit gate refused; nothing was launched" in done.said
    assert "seen: disk budget 1.9 GB (400.0 MB checkpoint × 2 + 1.1 GB for logs) against" in done.said
    judged = me.events("gate_judged")[-1]
    assert (judged["gate"], judged["outcome"], judged["skipped"]) == ("audit", "refused", False)
    assert me.events("run_seen") == []


@pytest.mark.namespaces
@pytest.mark.parametrize("options", ["size=1m,nr_inodes=20", "size=200k"])
def test_a_disk_that_cannot_even_hold_us_says_so(me: Front, place: Path, options: str) -> None:
    done = me.lease("check", "audit", "--root", str(place), disk=Tmpfs(place, options))
    assert done.code == 4, done.said
    assert "error[box.no_root]: the box cannot hold our folder: " in done.said
    assert "No space left on device" in done.said
    assert "--root" in done.said


@pytest.mark.namespaces
def test_a_read_only_disk_says_so(me: Front, place: Path) -> None:
    done = me.lease("check", "audit", "--root", str(place), disk=Tmpfs(place, "ro,size=1g"))
    assert done.code == 4, done.said
    assert "error[box.no_root]" in done.said


def audit_tier(home: Home, path: str) -> Verdict:
    local = profiles.load("local")
    engine = find_box(home, "local").connect()
    try:
        job = Job("toy", "true", (Artifact("a", "bytes"),))
        return gatekeeper.audit(engine, job, replace(local, tiers=(*local.tiers, volume(path))))[0]
    finally:
        engine.wire.close()


def test_a_volume_that_is_not_mounted_is_refused_and_a_mounted_one_is_not(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    verdict = audit_tier(home, str(folder))
    assert [f.what for f in verdict.against()] == [f"{folder} does not exist on the box"]
    folder.mkdir()
    (finding,) = audit_tier(home, str(folder)).against()
    assert finding.what.startswith(f"{folder} (volume) is NOT mounted: ")
    assert "attach the volume" in finding.hint
    if os.path.ismount("/dev/shm") and os.access("/dev/shm", os.W_OK):
        assert audit_tier(home, "/dev/shm").passed


# ---------------------------------------------------------------- memory


def test_a_cgroups_limit_is_what_counts(me: Front) -> None:
    cgroup = Path(f"/sys/fs/cgroup/memory/leasehold-test-{os.getpid()}")
    if os.geteuid() != 0 or not (cgroup.parent / "memory.limit_in_bytes").exists():
        pytest.skip("needs root and a cgroup v1 memory controller")
    try:
        cgroup.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    enter = ["/bin/sh", "-c", f'echo $$ > "{cgroup}/cgroup.procs" && exec "$@"', "sh"]
    hog = None
    try:
        (cgroup / "memory.limit_in_bytes").write_text(str(400 << 20))
        done = me.lease("check", "audit", prefix=enter)
        assert done.code == 0, done.said
        assert "ok  memory limit 419.4 MB (cgroup v1, " in done.said
        words = [*enter, sys.executable, "-c", "b = bytearray(b'x') * (345 << 20); print('held', flush=True); input()"]
        hog = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert hog.stdout is not None and hog.stdout.readline() == "held\n"
        (cgroup / "memory.limit_in_bytes").write_text(str(400 << 20))
        done = me.lease("check", "audit", prefix=enter)
        assert done.code == 3, done.said
        assert "NO  memory limit 419.4 MB (cgroup v1, " in done.said
        assert "the kernel will kill the trainer" in done.said
    finally:
        if hog is not None:
            hog.kill()
            hog.communicate()
        assert eventually(lambda: not (cgroup / "cgroup.procs").read_text()), "somebody still lives there"
        cgroup.rmdir()


# ---------------------------------------------------------------- cards


def test_the_wrong_card_is_refused_before_anything_is_launched(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {"name": "A100", "count": 1, "memory": "40GB+"}})
    done = me.lease("run", **fake_cards(tmp_path, "Tesla T4, 15360"))
    assert done.code == 3, done.said
    assert (
        "seen: GPU: asked 1 × A100 with 40.0 GB or more; seen Tesla T4 16.1 GB driver 550.54.15: Tesla T4 is not a A100"
        in done.said
    )
    assert "hint: rent what the job asks for, or change the job's constraint" in done.said
    assert me.runs_on_box() == []


def test_a_driver_that_fails_is_quoted(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {}})
    place = program(
        tmp_path, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n"
    )
    done = me.lease("check", "audit", PATH=f"{place}:{os.environ['PATH']}")
    assert done.code == 3
    assert "nvidia-smi exited with 18: Failed to initialize NVML: Driver/library version mismatch" in done.said


def test_the_right_card_passes_and_its_readings_are_in_the_ledger(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {"name": "a100", "count": 2, "memory": "40GB+"}})
    done = me.lease("run", **fake_cards(tmp_path, *["NVIDIA A100-SXM4-40GB, 40960"] * 2))
    assert done.code == 0, done.said
    (audit,) = [event for event in me.events("gate_judged") if event["gate"] == "audit"]
    assert any("seen NVIDIA A100-SXM4-40GB 42.9 GB driver" in finding["what"] for finding in audit["findings"])


# ---------------------------------------------------------------- the interpreter


def gpu_torch_project(me: Front, python: str) -> None:
    me.write("train.py", "import torch\n" + WRITE)
    me.job(run=f"{python} train.py", resources={"gpu": {}})


def test_a_cpu_build_of_torch_is_refused_where_a_card_is_asked_for(me: Front, tmp_path: Path) -> None:
    gpu_torch_project(me, "python3 -S")
    (tmp_path / "lib" / "torch").mkdir(parents=True)
    (tmp_path / "lib" / "torch" / "__init__.py").write_text(CPU_TORCH)
    cards = fake_cards(tmp_path, "NVIDIA H100 80GB HBM3, 81559")
    done = me.lease("run", **cards, PYTHONPATH=f"{me.environment['PYTHONPATH']}:{tmp_path}/lib")
    assert done.code == 3, done.said
    assert "error[env.refused]: the env gate refused; nothing was launched" in done.said
    assert "seen: torch.cuda.is_available() is False (this torch is a CPU build)" in done.said
    assert "do not train on the CPU" in done.said
    assert me.runs_on_box() == []
    assert me.gates() == {"plan": "passed", "audit": "passed", "env": "refused"}


def test_a_framework_that_is_not_installed_is_named_with_the_interpreter(me: Front) -> None:
    me.write("train.py", "import torch\n")
    me.job(run="python3 -S train.py")
    (me.project / "home").mkdir()
    done = me.lease("check", "env", HOME=str(me.project / "home"), PYTHONPATH=me.environment["PYTHONPATH"])
    if "imports torch" in done.said:
        pytest.skip("this machine's python3 has torch")
    assert done.code == 3, done.said
    assert "NO  cannot import torch: ModuleNotFoundError: No module named 'torch'" in done.said
    assert "put the install into `setup`" in done.said


def test_an_interpreter_that_is_not_there_is_refused(me: Front) -> None:
    me.write("train.py", "import torch\n")
    me.job(run="/no/such/python train.py")
    done = me.lease("run")
    assert done.code == 3, done.said
    assert "seen: /no/such/python exited with 127" in done.said


@pytest.mark.full
def test_the_real_torch_on_a_cpu_is_refused_where_a_card_is_asked_for(me: Front, tmp_path: Path) -> None:
    gpu_torch_project(me, python_with("torch"))
    done = me.lease("check", "env", **fake_cards(tmp_path, "NVIDIA H100 80GB HBM3, 81559"))
    assert done.code == 3, done.said
    assert "ok  imports torch 2." in done.said
    assert "NO  torch.cuda.is_available() is False (this torch is a CPU build)" in done.said


# ---------------------------------------------------------------- scripts and artifacts


def test_a_script_with_windows_line_ends_is_refused_with_the_cure(me: Front) -> None:
    me.write("run me.sh", "#!/bin/sh\r\npython3 train.py\r\n")
    me.job(run="sh 'run me.sh'")
    done = me.lease("run")
    assert done.code == 2, done.said
    assert "error[code.crlf]: run me.sh has Windows line ends; its shell would not understand it" in done.said
    assert "sed -i 's/\\r$//' 'run me.sh'" in done.said
    subprocess.run(["sed", "-i", "s/\\r$//", "run me.sh"], cwd=me.project, check=True)
    assert me.lease("run").code == 0


@pytest.mark.parametrize(
    "written, refusal",
    [
        ("open(path, 'w')", "result.json does not load: "),
        ("open(path, 'w').write('{\"loss\": ')", "result.json does not load: "),
        ("None", "result.json: promised, and the smoke did not write it"),
        ("json.dump({}, open('result.json', 'w'))", "result.json: promised, and the smoke did not write it"),
    ],
    ids=["empty", "cut", "absent", "beside the code"],
)
def test_an_artifact_that_would_not_verify_is_refused_in_the_smoke(me: Front, written: str, refusal: str) -> None:
    me.write("train.py", TRAIN + f"path = os.path.join(os.environ['LEASE_OUT'], 'result.json')\n{written}\n")
    me.job(smoke="python3 -I -S train.py")
    done = me.lease("run")
    assert done.code == 3, done.said
    assert "error[smoke.refused]: the smoke gate refused; nothing was launched" in done.said
    assert f"seen: {refusal}" in done.said
    assert me.runs_on_box() == []


@pytest.mark.parametrize(
    "body, refusal",
    [
        ("print('step 1/2 loss nan')", "seen: loss seen: nan"),
        ("import sys; sys.exit(5)", "seen: `python3 -I -S train.py` exited with 5"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    import traceback; traceback.print_exc()",
         "seen: a traceback: ZeroDivisionError: division by zero"),
    ],
    ids=["nan", "exit code", "swallowed traceback"],
)  # fmt: skip
def test_a_smoke_that_goes_badly_is_refused(me: Front, body: str, refusal: str) -> None:
    me.write("train.py", WRITE.replace("print('step 1/1 loss 0.5', flush=True)", body))
    me.job(smoke="python3 -I -S train.py")
    done = me.lease("run")
    assert done.code == 3, done.said
    assert refusal in done.said


def test_a_smoke_that_passed_is_not_run_again_for_the_same_code(me: Front) -> None:
    me.job(smoke="python3 -I -S train.py", run="false")
    assert "smoke: passed" in me.lease("run").said
    assert "passed before, with the same code and job" in me.lease("run").said
    me.write("train.py", WRITE + "# changed\n")
    assert "smoke: python3 -I -S train.py" in me.lease("run", "--alongside").said
