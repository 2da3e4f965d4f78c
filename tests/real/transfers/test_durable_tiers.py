"""The checked copy on real disks that fill, freeze, turn read-only or vanish while it is under way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.artifacts.durable_watch import GIVE_UP_S, DurableCopy
from leasehold.caretaker.process import child_worker
from leasehold.caretaker.run.run_folder import RunFolder
from tests.support import processes
from tests.support.lives import eventually
from tests.support.parts import box_namespaces

CODE = "import sys; from leasehold.caretaker.entry import main; sys.exit(main(sys.argv[1:]))"
RUN = "toy-0123456789"

# Mount the tier, let the copier come to the moment, do the deed there, let it go on; its exit status is ours.
DRAMA = """
set -u; tier=$1 options=$2 deed=$3 moment=$4; shift 4
mount -t tmpfs -o "$options" tmpfs "$tier" || exit 97
"$@" & copier=$!
n=0; while [ ! -e "$moment/reached" ] && [ $n -lt 3000 ] && kill -0 $copier; do sleep 0.01; n=$((n+1)); done
eval "$deed"; touch "$moment/go"; wait $copier; code=$?
find "$tier" -path '*/export/*' 2>/dev/null; exit $code
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished run of one cell whose artifacts are six megabytes in twenty files."""
    folder = RunFolder(str(tmp_path / "root" / "active" / RUN))
    os.makedirs(folder.out("main"))
    for number in range(20):
        Path(folder.out("main"), f"part-{number:02}.bin").write_bytes(os.urandom(300_000))
    tier = tmp_path / "tier"
    tier.mkdir()
    environment = {"durable": str(tier)}
    plan = {"cells": ["main"], "patterns": ["*.bin"], "plan_sha256": "p", "environment": environment}
    Path(folder.plan).write_text(json.dumps(plan))
    return folder


def copy(run: RunFolder, tmp_path: Path, options: str, deed: str = ":", moment: str = "") -> tuple[int, str, str]:
    """Copy onto a tmpfs; return the exit status, what lies under the claiming name, and the problem."""
    aim = tmp_path / "moment"
    aim.mkdir(exist_ok=True)
    if not moment:
        (aim / "reached").touch()
    tier = str(tmp_path / "tier")
    words = ["sh", "-c", DRAMA, "drama", tier, options, deed, str(aim), sys.executable, "-c", CODE, "copy", run.path]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LEASEHOLD_PAUSE": f"{aim}:{moment}:after"}
    done = subprocess.run(
        [*box_namespaces("--mount"), *words], env=environ, capture_output=True, text=True, timeout=90, check=False
    )
    return done.returncode, done.stdout, str(json.loads(Path(run.durable).read_text()).get("problem", ""))


FILL = 'head -c 300000000 /dev/zero >"$tier/filler" 2>/dev/null'
DEEDS = {
    "no-bytes-from-the-start": ("size=8m", ":", "", "MB free, the copy needs"),
    "no-inodes-from-the-start": ("nr_inodes=12", ":", "", "inodes left, the copy needs"),
    "bytes-run-out": ("size=100m", FILL, "durable_checked", "no space left"),
    "inodes-run-out": ("nr_inodes=60", "touch $(seq -f $tier/%g 60) 2>/dev/null", "durable_checked", "no space left"),
    "read-only-from-the-start": ("ro", ":", "", "Read-only file system"),
    "turns-read-only": ("size=100m", 'mount -o remount,ro "$tier"', "durable_checked", "Read-only file system"),
    "turns-read-only-at-the-end": ("size=100m", 'mount -o remount,ro "$tier"', "durable_written", "Read-only"),
    "vanishes": ("size=100m", 'umount -l "$tier"', "durable_checked", "is another disk now"),
}


@pytest.mark.containers
@pytest.mark.parametrize("options, deed, moment, said", list(DEEDS.values()), ids=list(DEEDS))
def test_a_tier_that_fails_is_a_failure_and_nothing_claims_to_be_whole(
    run: RunFolder, tmp_path: Path, options: str, deed: str, moment: str, said: str
) -> None:
    code, claimed, problem = copy(run, tmp_path, options, deed, moment)
    assert (code, claimed) == (2, ""), problem
    assert said in problem
    assert list((tmp_path / "tier").iterdir()) == [], "it was written to the disk below the mount"


@pytest.mark.containers
def test_a_tier_of_its_own_takes_the_copy(run: RunFolder, tmp_path: Path) -> None:
    code, claimed, problem = copy(run, tmp_path, "size=100m")
    assert code == 0, problem
    assert claimed.count(".bin\n") == 20 and "manifest.json" in claimed


# ---------------------------------------------------------------- a mount that hangs


@contextlib.contextmanager
def freezable(image: Path, place: Path) -> Iterator[Callable[[str], None]]:
    """Mount a small ext4; give a function that freezes (-f) and thaws (-u) it."""

    def freeze(flag: str) -> None:
        subprocess.run(["fsfreeze", flag, str(place)], check=True, timeout=60)

    with image.open("wb") as file:
        file.truncate(160 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], capture_output=True, check=False)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True, check=False)
    if made.returncode or mounted.returncode:
        pytest.skip("no loop mount here: " + (made.stderr + mounted.stderr).decode("utf-8", "replace").strip())
    try:
        yield freeze
    finally:
        subprocess.run(["fsfreeze", "-u", str(place)], capture_output=True, check=False)
        subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="freezing a filesystem needs root")
def test_a_mount_that_hangs_takes_the_copier_along_and_not_the_caretaker(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_worker, "own_argv", lambda *words: [sys.executable, "-c", CODE, *words])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    notes: list[dict[str, Any]] = []
    now = [1000.0]
    copying = DurableCopy(
        run, {"cells": ["main"]}, lambda kind, **data: notes.append({"k": kind, **data}), lambda: now[0]
    )
    with freezable(tmp_path / "image", tmp_path / "tier") as freeze:
        freeze("-f")
        assert not copying.step(lambda: None)
        pid = copying._worker.pid
        assert eventually(lambda: processes.snapshot()[pid].state == "D"), "no process hangs: nothing is proven"
        assert not copying.step(lambda: None)
        now[0] += 60
        assert not copying.step(lambda: None)
        now[0] += GIVE_UP_S + 60
        assert copying.step(lambda: None)
        assert [note["k"] for note in notes] == ["durable_waiting", "durable_failed"]
        assert f"{tmp_path}/tier/leasehold has not answered" in copying.problem
        freeze("-u")
        os.waitpid(pid, 0)
        assert not list((tmp_path / "tier").rglob("export/*"))
