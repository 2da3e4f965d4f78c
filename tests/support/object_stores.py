"""Real object stores on loopback: rclone's and SeaweedFS's, out of .venv-objects (tools/objects_venv.sh).

They differ in what matters: SeaweedFS checks checksums and obeys If-None-Match, rclone takes neither and says nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional

from tests.support.ports import free_ports

ACCESS, SECRET = "ACCESSKEY1", "SECRETKEY1"
BUCKET = "kept"
_BIN = Path(__file__).resolve().parents[2] / ".venv-objects" / "bin"
_WAIT_S = 60.0
_PR_SET_PDEATHSIG = 1


def program(name: str) -> str:
    """Return the path of a program of .venv-objects."""
    return str(_BIN / name)


def missing_object_stores() -> Optional[str]:
    """Say why no object store can run here, or None."""
    for name in ("rclone", "weed"):
        if not (_BIN / name).exists():
            return "no %s here (tools/objects_venv.sh)" % name
    return None


class ObjectStore:
    """A running store with one bucket; `environ` has what a client needs."""

    def __init__(self, name: str, port: int, process: "subprocess.Popen[bytes]", folder: str) -> None:
        self.name = name
        self.port = port
        self.folder = folder
        self._process = process
        self.environ = environ_for(port)

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()


def environ_for(port: int, host: str = "127.0.0.1") -> Dict[str, str]:
    """Return the variables by which a client finds a store."""
    return {
        "AWS_ENDPOINT_URL": "http://%s:%d" % (host, port),
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


_running: Dict[str, ObjectStore] = {}


def store(name: str) -> ObjectStore:
    """Return the store of this name; it is started once a test process and ends with it."""
    if name not in _running:
        folder = tempfile.mkdtemp(prefix="leasehold-%s-" % name)
        found = STORES[name](folder)
        atexit.register(_end, found)
        _running[name] = found
    return _running[name]


def _rclone(folder: str) -> ObjectStore:
    port = free_ports(1)
    os.mkdir(os.path.join(folder, BUCKET))
    argv = [
        program("rclone"), "serve", "s3", "--addr", "127.0.0.1:%d" % port, "--auth-key", "%s,%s" % (ACCESS, SECRET),
        "--config", os.devnull, folder,
    ]  # fmt: skip
    return _start("rclone", port, argv, folder)


def _weed(folder: str) -> ObjectStore:
    ports = free_ports(12)
    config = os.path.join(folder, "s3.json")
    keys = [{"accessKey": ACCESS, "secretKey": SECRET}]
    Path(config).write_text(
        json.dumps({"identities": [{"name": "tests", "credentials": keys, "actions": ["Admin"]}]}), encoding="utf-8"
    )
    numbered = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
                "filer.port", "filer.port.grpc"]  # fmt: skip
    argv = [program("weed"), "server", "-s3", "-s3.config=" + config, "-dir=" + folder, "-ip=127.0.0.1"]
    argv += ["-%s=%d" % (name, ports + at) for at, name in enumerate(numbered)]
    argv += ["-ip.bind=127.0.0.1", "-master.telemetry=false", "-s3.iam=false", "-volume.max=20", "-s3.port.iceberg=0"]
    argv += ["-s3.port.lance=0", "-filer.localSocket=%s/f.sock" % folder, "-s3.localSocket=%s/s.sock" % folder]
    return _start("weed", ports, argv, folder)


STORES: Dict[str, Callable[[str], ObjectStore]] = {"rclone": _rclone, "weed": _weed}


def _start(name: str, port: int, argv: List[str], folder: str) -> ObjectStore:
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=_die_with_us)
    found = ObjectStore(name, port, process, folder)
    try:
        _wait(found, os.path.join(folder, "log"), process)
    except BaseException:
        found.stop()
        raise
    return found


def _wait(found: ObjectStore, log: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the store takes an object into its bucket."""
    from leasehold.kit.objects.bucket import Request, Timing
    from leasehold.kit.objects.object_place import open_bucket
    from leasehold.kit.refuge.place import PlaceError

    opened = open_bucket("s3://" + BUCKET, found.environ, Timing(tries=1, stall_s=5.0))
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(PlaceError):
            with contextlib.suppress(PlaceError):
                opened.bucket.ask(Request("PUT"))
            opened.bucket.ask(Request("PUT", "ready"))
            opened.delete("ready")
            opened.close()
            return
        time.sleep(0.05)
    raise RuntimeError("%s does not serve: %s" % (found.name, Path(log).read_text(errors="replace")[-2000:]))


def _end(found: ObjectStore) -> None:
    found.stop()
    shutil.rmtree(found.folder, ignore_errors=True)


def _die_with_us() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
