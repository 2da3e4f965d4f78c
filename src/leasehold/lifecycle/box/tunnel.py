"""A tunnel to a panel on the box, and proof that the panel sees the run; an empty panel is no reason to restart."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.errors import LinkError, UserError
from leasehold.kit.text.safe_text import one_line

if TYPE_CHECKING:
    from leasehold.lifecycle.machine.box import Box

_OPEN_LIMIT_S = 30.0
_ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Panel:
    """The service that answered at the far end of the tunnel."""

    kind: str  # tensorboard, jupyter, http, other, silent
    detail: str


@contextmanager
def tunnel(box: Box, far_port: int, near_port: int = 0) -> Iterator[int]:
    """Forward a local port to the box's loopback; yield the local port and close with the block."""
    forward = getattr(box.transport, "tunnel_argv", None)
    if forward is None:
        yield far_port  # this machine: nothing to forward
        return
    near = near_port or free_port()
    _refuse_taken(near)
    child = subprocess.Popen(
        forward(near, far_port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _wait_open(child, near, far_port)
        yield near
    finally:
        child.terminate()
        try:
            child.wait(timeout=3)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def look_at_panel(port: int, run: str, runs_folder: str = "") -> Panel:
    """Ask the panel itself whether it sees the run, which is one of those in runs_folder on the box."""
    runs = _get_json(port, "/data/runs")
    if isinstance(runs, list):
        return Panel("tensorboard", _tensorboard([one_line(str(name)) for name in runs], run, runs_folder))
    jupyter = _get_json(port, "/api")
    if isinstance(jupyter, dict) and "version" in jupyter:
        return Panel("jupyter", f"jupyter server {jupyter['version']} answers")
    status = _get_status(port)
    if status is not None:
        return Panel("http", f"something answers with HTTP {status}")
    if _says_anything(port):
        return Panel("other", "something answers there, but it does not speak HTTP: is it the right port?")
    return Panel("silent", "nothing answers on that port of the box: is the panel running there?")


def _tensorboard(names: list[str], run: str, runs_folder: str) -> str:
    """Read TensorBoard's run names: folders below its --logdir; `.` is the logdir itself, which names nothing."""
    start = f" On the box: tensorboard --logdir {runs_folder}" if runs_folder else ""
    if not names:
        return f"it shows no run at all: its --logdir holds no event files (yet).{start}"
    shows = f"it shows {len(names)} run{'' if len(names) == 1 else 's'}"
    if any(run in name for name in names):
        return f"{shows}, {next(name for name in names if run in name)} among them"
    if names == ["."]:
        return f"{shows} without a name (the files lie in its --logdir itself), so it cannot be told whose.{start}"
    return f"{shows} ({', '.join(names[:3])}), none named {run}: is its --logdir where this run writes?{start}"


def check_port(text: str) -> int:
    """Parse a port number."""
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise UserError("tunnel.bad_port", f"{text!r} is not a port", hint="6006 is TensorBoard's, 8888 Jupyter's")
    return int(text)


def free_port() -> int:
    """Let the kernel choose a local port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _refuse_taken(port: int) -> None:
    """Refuse a port that is in use: its listener would answer in the box's name."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            hint = "choose another with --local-port, or leave it out"
            raise UserError("tunnel.port_taken", f"port {port} of this machine: {error.strerror}", hint=hint) from None


def _wait_open(child: subprocess.Popen[str], near: int, far: int) -> None:
    deadline = time.monotonic() + _OPEN_LIMIT_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            said = (child.stderr.read() if child.stderr else "").strip().splitlines()
            raise LinkError("tunnel.failed", f"ssh could not forward port {far}", seen=said[-1] if said else "")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", near)) == 0:
                return
        time.sleep(0.05)
    raise LinkError("tunnel.failed", f"the tunnel did not open in {_OPEN_LIMIT_S:.0f} s")


def _get_json(port: int, path: str) -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_ASK_TIMEOUT_S) as answer:
            return json.loads(answer.read(1 << 20))
    except (OSError, ValueError, http.client.HTTPException):  # the last try: the server does not speak HTTP
        return None


def _says_anything(port: int) -> bool:
    """Return whether any data comes back; through a tunnel every port accepts connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ASK_TIMEOUT_S) as caller:
            caller.sendall(b"\r\n")
            return bool(caller.recv(1))
    except OSError:
        return False


def _get_status(port: int) -> int | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=_ASK_TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)
    except (OSError, ValueError, http.client.HTTPException):
        return None
