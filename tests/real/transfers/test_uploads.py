"""`data:` over a real sshd and a bad network: a cut upload goes on where it was, by itself or by the same command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import Front, front
from tests.support.lives import eventually
from tests.support.sweeps import running, said_by
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.real_ssh

SIZE = 24_000_000
TRAIN = """import hashlib, json, os
digest = hashlib.sha256(open("data/train.bin", "rb").read()).hexdigest()
json.dump({"sha256": digest}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[tuple[Front, SshBed, TcpProxy]]:
    """A person with 24 MB of data, whose way to the box leads through a proxy."""
    with ssh_bed(tmp_path) as bed, TcpProxy(bed.box.port) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as made:
            made.write("train.py", TRAIN)
            (made.project / "data").mkdir()
            (made.project / "data" / "train.bin").write_bytes(os.urandom(SIZE))
            made.job(data=["data"])
            yield made, bed, proxy


def parts(bed: SshBed) -> list[int]:
    return [path.stat().st_size for path in (bed.root / "inputs" / "parts").glob("*")]


def test_a_cut_link_costs_only_what_was_under_way(person: tuple[Front, SshBed, TcpProxy]) -> None:
    someone, _, proxy = person
    proxy.cut_after(SIZE // 2)
    done = someone.lease("run", "--on", "ssh:box")
    assert done.code == 0, done.said
    assert "was cut" in done.said and "what arrived is kept, and the upload goes on" in done.said
    assert "of them arrived before" in done.said
    assert "every hash was checked there" in done.said
    assert proxy.carried_bytes() < SIZE + SIZE // 3, "bytes travelled twice"


def test_a_killed_upload_goes_on_by_the_identical_command(person: tuple[Front, SshBed, TcpProxy]) -> None:
    someone, bed, proxy = person
    proxy.hold_after(SIZE // 2)
    with running(someone, "run", "--on", "ssh:box") as uploading:
        assert eventually(lambda: any(size > SIZE // 4 for size in parts(bed))), said_by(uploading)
        uploading.kill()
        uploading.wait()
    proxy.cut()
    proxy.resume()
    (kept,) = parts(bed)
    assert not (bed.root / "active").exists() or not list((bed.root / "active").glob("*/plan.json"))
    carried = proxy.carried_bytes()
    done = someone.lease("run", "--on", "ssh:box")
    assert done.code == 0, done.said
    assert "of them arrived before" in done.said
    assert proxy.carried_bytes() - carried < SIZE - kept + 4_000_000
    assert parts(bed) == []


def test_two_runs_share_it_and_a_box_that_lost_it_gets_it_again(person: tuple[Front, SshBed, TcpProxy]) -> None:
    someone, bed, proxy = person
    assert someone.lease("run", "--on", "ssh:box").code == 0
    carried = proxy.carried_bytes()
    someone.job(name="other", data=["data/train.bin"])  # the same file in another shape
    done = someone.lease("run", "--on", "ssh:box")
    assert done.code == 0 and "nothing travels" in done.said, done.said
    assert proxy.carried_bytes() - carried < SIZE // 4
    blob = next(path for path in (bed.root / "inputs" / "blobs").rglob("*") if path.is_file())
    blob.unlink()
    done = someone.lease("run", "--again", "--on", "ssh:box")
    assert done.code == 0 and "24.0 MB in 1 file go to" in done.said, done.said
