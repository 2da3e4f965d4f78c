"""`lease pull` over a real sshd and a bad network: cuts, a live trainer, a limit; said, and never a byte twice."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import Done, Front, front
from tests.support.lives import eventually
from tests.support.sweeps import running, said_by
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.real_ssh

MIB = 1 << 20
TRAIN = f"""import os, time
from pathlib import Path
out = Path(os.environ["LEASE_OUT"])
(out / "ckpt").mkdir(exist_ok=True)
(out / "ckpt" / "epoch1.pt").write_bytes(os.urandom({6 * MIB}))
os.utime(out / "ckpt" / "epoch1.pt", (time.time() - 60,) * 2)
(out / "written").touch()
print("trained one epoch", flush=True)
while not Path("go").exists():
    time.sleep(0.02)
(out / "metrics.json").write_text('{{"loss": 1}}')
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[tuple[Front, SshBed, TcpProxy]]:
    """A person whose way to the box leads through a proxy."""
    with ssh_bed(tmp_path) as bed, TcpProxy(bed.box.port) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as made:
            made.write("train.py", TRAIN)
            made.job(
                name="far", run="python3 train.py", artifacts={"ckpt/*.pt": "bytes", "metrics.json": "json"}, smoke=None
            )
            yield made, bed, proxy


def launch(person: Front, bed: SshBed) -> tuple[str, Path]:
    done = person.lease("run", "--on", "ssh:box", "--detach")
    assert done.code == 0, done.said
    run = done.out.strip()
    folder = bed.root / "active" / run
    assert eventually((folder / "out" / "main" / "written").exists)
    return run, folder


def finish(person: Front, folder: Path, run: str) -> None:
    (folder / "work" / "main" / "go").touch()
    done = person.lease("watch", run)
    assert done.code == 0, done.said


def cut_while_pulling(person: Front, bed: SshBed, proxy: TcpProxy, run: str, cuts: tuple[int, int]) -> tuple[Done, int]:
    """Pull over one connection that is cut after so many bytes, so many times; return also what was carried.

    On a busy machine a near box may seem far. Then several connections share the bytes, and no cut comes where it
    should: that pull says nothing, and is made again.
    """
    after_bytes, times = cuts
    for _ in range(10):
        shutil.rmtree(person.project / "lease-results", ignore_errors=True)
        shutil.rmtree(person.home / "cache" / "ways", ignore_errors=True)
        assert eventually(lambda: proxy.links() == 0)
        logins, before = bed.box.handshakes(), proxy.carried_bytes()
        proxy.cut_after(after_bytes, times)
        done = person.lease("pull", run)
        if bed.box.handshakes() - logins == 1 + times:
            return done, proxy.carried_bytes() - before
    raise AssertionError(f"never over one connection at a time: {done.said}")


def test_a_live_run_is_evacuated_and_its_end_fetches_only_the_rest(person: tuple[Front, SshBed, TcpProxy]) -> None:
    front_, bed, proxy = person
    run, folder = launch(front_, bed)
    done = front_.lease("pull", run, "--json")
    assert done.code == 6, done.said
    assert json.loads(done.out)["receipt"] is None
    assert json.loads(done.out)["evacuated"]["files"] == 1
    finish(front_, folder, run)
    before = proxy.carried_bytes()
    done = front_.lease("pull", run, "--json")
    assert done.code == 0, done.said
    assert json.loads(done.out)["receipt"]["files"] == 2
    assert proxy.carried_bytes() - before < 2 * MIB, "the checkpoint was home already"


def test_a_pull_survives_cuts_and_says_so(person: tuple[Front, SshBed, TcpProxy]) -> None:
    front_, bed, proxy = person
    run, folder = launch(front_, bed)
    finish(front_, folder, run)
    done, _ = cut_while_pulling(front_, bed, proxy, run, (2 * MIB, 2))
    assert done.code == 0, done.said
    assert len(re.findall("what came so far is kept; trying again in [12] s", done.said)) == 2
    assert "over the wire" not in done.said, "every byte that came home came once"
    export = Path(done.out.strip())
    assert (export / "cells/main/ckpt/epoch1.pt").read_bytes() == (folder / "out/main/ckpt/epoch1.pt").read_bytes()


def test_after_five_cuts_nothing_that_had_come_came_twice(tmp_path: Path) -> None:
    """On the network a cut costs what lay in ssh's own buffers: up to its window of 2 MiB."""
    size = 64 * MIB
    with ssh_bed(tmp_path) as bed, TcpProxy(bed.box.port) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as made:
            made.job(
                name="cut", run=f"head -c {size} /dev/urandom > $LEASE_OUT/w", artifacts={"w": "bytes"}, smoke=None
            )
            done = made.lease("run", "--on", "ssh:box")
            assert done.code == 0, done.said
            run = made.events("run_planned")[0]["run"]
            done, carried = cut_while_pulling(made, bed, proxy, run, (size // 6, 5))
            assert done.code == 0, done.said
            assert done.said.count("what came so far is kept") == 5
            assert "over the wire" not in done.said, "every byte that came home came once"
            assert carried < size + 5 * (2 * MIB + 512 * 1024)
            assert (Path(done.out.strip()) / "cells/main/w").read_bytes() == (
                bed.root / "active" / run / "out/main/w"
            ).read_bytes()


@pytest.mark.parametrize("door", ["a gateway for one", "a key to touch"])
def test_a_far_box_that_lets_only_one_connection_in_is_pulled_over_it(tmp_path: Path, door: str) -> None:
    with ssh_bed(tmp_path) as bed, TcpProxy(bed.box.port, delay_s=0.02) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as made:
            made.job(
                name="one", run="head -c 24000000 /dev/urandom > $LEASE_OUT/w", artifacts={"w": "bytes"}, smoke=None
            )
            done = made.lease("run", "--on", "ssh:box")
            assert done.code == 0, done.said
            run = made.events("run_planned")[0]["run"]
            shutil.rmtree(made.project / "lease-results")
            assert eventually(lambda: proxy.links() == 0)  # those of the run, which has ended
            proxy.hold_after(4 * MIB)  # what comes waits until no other connection was to be had
            if door == "a gateway for one":
                proxy.refuse_after(1)
            else:
                script, key = bed.box.folder / "session.sh", bed.box.folder / "client_key.pub"
                script.write_text(f": > {shlex.quote(str(key))}\n{script.read_text()}")
            with running(made, "pull", run) as pulling:
                assert eventually(lambda: "going on with those there are" in said_by(pulling)), said_by(pulling)
                proxy.resume()
                assert pulling.wait(60) == 0, said_by(pulling)
                assert said_by(pulling).count("going on with those there are") == 1
            export = made.project / "lease-results" / "export" / run
            assert (export / "cells/main/w").stat().st_size == 24_000_000


@pytest.mark.parametrize("rate, code", [("fast", 2), ("100MB", 0)])
def test_a_limit_is_read_or_refused(person: tuple[Front, SshBed, TcpProxy], rate: str, code: int) -> None:
    front_, bed, _ = person
    run, folder = launch(front_, bed)
    finish(front_, folder, run)
    done = front_.lease("pull", run, "--limit-rate", rate)
    assert done.code == code, done.said


def test_code_that_runs_use_is_not_pruned(person: tuple[Front, SshBed, TcpProxy]) -> None:
    front_, bed, _ = person
    run, folder = launch(front_, bed)
    finish(front_, folder, run)
    done = front_.lease("box", "prune", "ssh:box", "--dry-run")
    assert done.code == 0, done.said
    assert "would remove 0 code trees" in done.out
