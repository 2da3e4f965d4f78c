"""Start a process that outlives the connection, by the primitive the profile names."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.atomic import write_atomic, write_json
from leasehold.kit.files.canonical_json import sha256

_READY_TIMEOUT_S = 20.0  # Python may start slowly from a network disk, or on a busy box


def launch(
    primitives: List[str], argv: Callable[[str], List[str]], name: str, ready: Callable[[], bool]
) -> Tuple[str, List[str]]:
    """Try each primitive until ready() holds; return the one that worked and why the others did not."""
    tried: List[str] = []
    for primitive in primitives:
        starter = _STARTERS.get(primitive)
        started = starter(argv(primitive), name) if starter else _Started("not known here")
        if started.problem is None and _wait(ready, started.child):
            return primitive, tried
        tried.append("%s: %s" % (primitive, started.problem or _silence(name, started.child)))
    return "", tried


class _Started(NamedTuple):
    problem: Optional[str] = None
    child: Optional["subprocess.Popen[bytes]"] = None  # the process itself, where it is started directly


def _silence(name: str, child: Optional["subprocess.Popen[bytes]"]) -> str:
    """Return the last error output of a caretaker that never reported ready."""
    try:
        with open(os.path.join(name, "caretaker.err"), "rb") as file:
            said = file.read()[-500:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        said = []
    ended = child is not None and child.poll() is not None
    what = "started, and ended at once" if ended else "started, but no sign of life in %d s" % _READY_TIMEOUT_S
    return what + (": " + said[-1] if said else "")


def _by_setsid(argv: List[str], name: str) -> _Started:
    """Start it in its own session; not by os.fork, which a process with threads must not use."""
    with open(os.path.join(name, "caretaker.err"), "ab") as last_words:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=last_words, start_new_session=True
        )
    return _Started(child=child)


def _by_tmux(argv: List[str], name: str) -> _Started:
    own = "leasehold-" + sha256(name.encode())[:12]  # a server of its own: today's environment, and nobody else ends it
    return _Started(_ask(["tmux", "-L", own, "new-session", "-d", "-s", own, "--", *argv]))


def _by_systemd(argv: List[str], name: str) -> _Started:
    lingers = _ask(["loginctl", "show-user", str(os.getuid()), "--property=Linger"], want="Linger=yes")
    if lingers is not None:
        return _Started("lingering is off, so logout would end it (%s)" % lingers)
    unit = "leasehold-" + sha256(name.encode())[:12]
    return _Started(_ask(["systemd-run", "--user", "--quiet", "--collect", "--unit", unit, "--", *argv]))


def _by_pod(argv: List[str], name: str) -> _Started:
    """Order it from process 1 of the pod; a reader pod has no such process and may only end what a stop asked for."""
    if os.environ.get("LEASE_POD_ROLE") == "reader":
        if os.path.exists(os.path.join(name, "stop.json")):
            return _by_setsid(argv, name)
        return _Started("this pod only reads the volume; the identical lease run starts the job's own pod again")
    pods = os.path.join(name, "pods")
    os.makedirs(pods, exist_ok=True)
    write_json(os.path.join(pods, "order.json"), {"argv": argv})
    write_atomic(os.path.join(pods, "entry"), ("%s\n%s\n" % (argv[0], argv[3])).encode())
    return _Started()


_STARTERS: Dict[str, Callable[[List[str], str], _Started]] = {
    "setsid": _by_setsid,
    "tmux": _by_tmux,
    "systemd": _by_systemd,
    "k8s-job": _by_pod,
}


def _ask(argv: List[str], want: str = "") -> Optional[str]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        )
    except FileNotFoundError:
        return "%s is not installed" % argv[0]
    except subprocess.TimeoutExpired:
        return "%s did not answer in 20 s" % argv[0]
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0 or want not in said:
        return said[:200] or "%s exited with %d" % (argv[0], done.returncode)
    return None


def _wait(ready: Callable[[], bool], child: Optional["subprocess.Popen[bytes]"]) -> bool:
    """Wait until it is ready; stop waiting once it has exited."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        ended = child is not None and child.poll() is not None
        if ready():
            return True
        if ended:
            return False
        time.sleep(0.004)
    return False
