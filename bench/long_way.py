"""The same transfers over 80 ms, 0.1 % loss and 500 Mbit: two network namespaces and a relay between them.

`measure` starts this module once more inside namespaces of its own (`unshare`), where the rows are taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.sshd import HOST, SshBox

from .rounds import Effort, interleave
from .rows import Goal, MissingPart, Row
from .transfer import FIRST_PUSH, RUN, Way, fill_large, fill_small, first_pushes, metrics_log, prepare, pulls

_DELAY_MS, _LOSS, _MBIT = 40, 0.001, 500
_NEAR, _FAR = "10.97.0.1", "10.97.0.2"
_PORT = 2222
_WHERE = f"{2 * _DELAY_MS} ms, {_LOSS:.1%} loss, {_MBIT} Mbit"
_CUTS = 5
_PEERS = ("rsync -a", "tar | ssh")
_HERE = Path(__file__).resolve().parent


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the rows that a copy of this module took inside its namespaces."""
    for name in ("unshare", "ip"):
        if shutil.which(name) is None:
            raise MissingPart(f"the long way: no {name} here (Debian: apt-get install iproute2 util-linux)")
    if os.geteuid() != 0:
        raise MissingPart("the long way: needs root for its network namespaces")
    words = ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"]
    words += [sys.executable, "-m", "bench.long_way", "quick" if effort.quick else "full"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise MissingPart(f"the long way: its namespaces could not be made or broke (exit {done.returncode})")
    for row in json.loads(done.stdout):
        goal = Goal(*row.pop("goal")) if row["goal"] else None
        yield Row(**{**row, "goal": goal})


def main() -> int:
    """Inside: make the two hosts, measure, print the rows as JSON."""
    quick = sys.argv[1] == "quick"
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name, contextlib.ExitStack() as stack:
        place = Path(name)
        relay = _network(stack)
        box = _FarBox(place / "box", quick_kex=False)
        stack.enter_context(box)
        os.environ["LEASEHOLD_SSH"] = shlex.join(box.ssh_command)
        way = Way(place, place / "root", box.ssh_command)
        prepare(way)
        rows = [*_push(way, quick), *_large(way, quick), *_small(way, quick), *_cuts(way, quick, relay)]
        print(json.dumps(rows))
    return 0


class _FarBox(SshBox):
    """A box whose sshd lives in the far namespace; this process lives in the near one."""

    def _server_words(self) -> list[str]:
        return ["ip", "netns", "exec", "far", *super()._server_words()]

    def _server_config(self) -> str:
        return super()._server_config().replace(f"127.0.0.1:{self.port}", f"{_FAR}:{_PORT}")

    def _client_config(self, port: int) -> str:
        text = super()._client_config(port)
        return text.replace("HostName 127.0.0.1", f"HostName {_FAR}").replace(f"Port {port}", f"Port {_PORT}", 1)

    def _trust_host_key(self) -> None:
        key = (self.folder / "host_key.pub").read_text(encoding="utf-8")
        self.known_hosts.write_text(f"[{_FAR}]:{_PORT} {key}", encoding="utf-8")


def _network(stack: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    """This namespace is the near host; the far one is joined to it through the relay, in a third."""

    def do(line: str) -> None:
        subprocess.run(line.split(), check=True, stdout=subprocess.DEVNULL)

    do("mount -t tmpfs -o size=1m tmpfs /run")
    for folder in ("/run/netns", "/run/sshd"):
        os.makedirs(folder, exist_ok=True)
    do("ip netns add far")
    do("ip netns add middle")
    do("ip link set lo up")
    for host, name, address in (("", "near0", _NEAR), ("far", "far0", _FAR)):
        inside = f"ip netns exec {host} " if host else ""
        do(f"ip netns exec middle ip link add m{name} type veth peer name {name}")
        do(f"ip netns exec middle ip link set {name} netns {host or os.getpid()}")
        do(f"ip netns exec middle ip link set m{name} up")
        do(f"{inside}{sys.executable} {_HERE / 'offload.py'} {name}")
        do(f"{inside}ip addr add {address}/24 dev {name}")
        do(f"{inside}ip link set {name} up")
    do("ip netns exec far ip link set lo up")
    words = ["ip", "netns", "exec", "middle", sys.executable, str(_HERE / "relay.py")]
    words += ["mnear0", "mfar0", str(_DELAY_MS), str(_LOSS), str(_MBIT)]
    relay = subprocess.Popen(words, stdout=subprocess.PIPE)
    stack.callback(relay.wait)
    stack.callback(relay.kill)
    assert relay.stdout is not None and relay.stdout.readline() == b"ready\n"
    return relay


def _push(way: Way, quick: bool) -> Iterator[dict[str, Any]]:
    taken = first_pushes(way, 1 if quick else 5)
    yield _row(f"{FIRST_PUSH}, {_WHERE}", taken, "rsync -a", 1.0)


def _large(way: Way, quick: bool) -> Iterator[dict[str, Any]]:
    size = 64 << 20 if quick else 512 << 20
    fill_large(way, size)
    yield from _rows(way, f"pull of one file, {size >> 20} MiB, {_WHERE}", 1 if quick else 3)


def _small(way: Way, quick: bool) -> Iterator[dict[str, Any]]:
    few, many = (2_000, 4_000) if quick else (10_000, 30_000)
    way.delete = False  # as in the near rows: whoever creates files after a deletion pays for it
    rounds = 1 if quick else 3
    for count, kind, content in ((few, "files", None), (few, "logs", metrics_log), (many, "files", None)):
        fill_small(way, count, content)
        time.sleep(10)
        peers = _PEERS if count == few and content is None else _PEERS[:1]
        yield from _rows(way, f"pull of {count:,} {kind} of 20 kB, {_WHERE}", rounds, peers)
    way.delete = True


def _rows(way: Way, what: str, rounds: int, peers: tuple[str, ...] = _PEERS) -> Iterator[dict[str, Any]]:
    ways = {name: go for name, go in pulls(way).items() if name in ("ours", *peers)}
    taken = interleave(ways, rounds)
    for name in peers:
        yield _row(what, taken, name, 1 / 3 if name == "rsync -a" else None)


def _row(what: str, taken: dict[str, list[float]], name: str, limit: float | None) -> dict[str, Any]:
    return {
        "bench": "transfer", "what": what, "unit": "s", "ours": taken["ours"], "peer": taken[name],
        "peer_name": name, "goal": ("ratio", "≤", limit) if limit is not None else None,
    }  # fmt: skip


def _cuts(way: Way, quick: bool, relay: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Kill the pulling process and cut the connections several times; count what came more than once."""
    size = 64 << 20 if quick else 512 << 20
    fill_large(way, size)
    into = way.fresh()
    came = 0
    part = into / "export" / ".partial" / RUN / "cells" / "main" / "model.bin"
    for number in range(_CUTS):
        pulling = subprocess.Popen(
            way.ours("pull", str(way.root), RUN, str(into)), env=way.environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        aim = size * (number + 1) // (_CUTS + 1)
        while pulling.poll() is None and not (part.exists() and part.stat().st_blocks * 512 >= aim):
            time.sleep(0.02)
        for pid in _ssh_of(pulling.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # the connections are cut; the puller sees it and leaves
        said, _ = pulling.communicate()
        came += _fetched(into)
    last = subprocess.run(
        way.ours("pull", str(way.root), RUN, str(into)), env=way.environment(), capture_output=True, check=True
    )
    came += int(json.loads(last.stdout)["fetched_bytes"])
    yield {
        "bench": "transfer", "what": f"bytes that came, {_CUTS} cuts in one pull of {size >> 20} MiB", "unit": "MB",
        "ours": [came / 1e6], "peer": [size / 1e6], "peer_name": "the file", "goal": ("ratio", "≤", 1.02),
    }  # fmt: skip


def _ssh_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(row[0]) for row in rows if row[1] == "ssh"]


def _fetched(into: Path) -> int:
    """Read how much the ended command had fetched, as it left it."""
    note = into / "fetched"
    value = int(note.read_text()) if note.exists() else 0
    note.unlink(missing_ok=True)
    return value


if __name__ == "__main__":
    assert HOST == "box"
    sys.exit(main())
