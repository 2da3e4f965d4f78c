"""One large file to an object store and back: ours beside `rclone copy` and boto3, on two servers on loopback.

Each way is a whole process. Ours hashes what it sends and gets (sha256, compared); its hash of the file is known
already, as a sealed artifact's is. rclone compares MD5 sums where the server has them, boto3 sends CRC32.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.support.object_stores import BUCKET, STORES, ObjectStore, missing_object_stores, program

from .rounds import Effort, interleave, seconds_of, user_environment
from .rows import Goal, MissingPart, Row

_MIB = 1 << 20
_OURS = """
import hashlib, os, sys
from leasehold.kit.objects.object_place import open_bucket
from leasehold.kit.objects.read_ranges import ObjectReader
what, path, sha256 = sys.argv[1:]
place = open_bucket("s3://BUCKET/bench", os.environ)
if what == "up":
    with open(path, "rb") as file:
        place.put("ours.bin", file, os.path.getsize(path), sha256)
else:
    seen = hashlib.sha256()
    with open(path + ".part", "wb", buffering=0) as file:
        for block in ObjectReader(place.bucket, "bench/ours.bin").open().blocks():
            seen.update(block)
            file.write(block)
    assert seen.hexdigest() == sha256
    os.replace(path + ".part", path)
"""
_BOTO3 = """
import os, sys
import boto3
from botocore.config import Config
what, path, _ = sys.argv[1:]
client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=Config(s3={"addressing_style": "path"}))
if what == "up":
    client.upload_file(path, "BUCKET", "bench/boto3.bin")
else:
    client.download_file("BUCKET", "bench/boto3.bin", path)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yield up and down on each server, against each peer."""
    missing = missing_object_stores()
    if missing:
        raise MissingPart(missing)
    mebibytes = effort.choose(full=1024, quick=128)
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        file = Path(place) / "file.bin"
        _write(file, mebibytes)
        for name, start in STORES.items():
            served = start(tempfile.mkdtemp(prefix="served-", dir=place))
            try:
                yield from _on(served, name, file, effort)
            finally:
                served.stop()


def _on(served: ObjectStore, name: str, file: Path, effort: Effort) -> Iterator[Row]:
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    environment = user_environment(**served.environ)
    for what in ("up", "down"):
        ways = _ways(what, file, sha256, environment)
        taken = interleave(ways, effort.choose(full=5, quick=3))
        said = f"{file.stat().st_size // _MIB} MiB {what}, {name}"
        for peer in ("rclone copy", "boto3"):
            yield Row("objects", said, "s", taken["ours"], taken[peer], peer, Goal("ratio", "≤", 1.0))


def _ways(what: str, file: Path, sha256: str, environment: Mapping[str, str]) -> dict[str, Callable[[], float]]:
    target = file if what == "up" else file.with_name("back.bin")
    script = [sys.executable, "-c", _OURS.replace("BUCKET", BUCKET), what, str(target), sha256]
    boto3 = [program("python"), "-c", _BOTO3.replace("BUCKET", BUCKET), what, str(target), sha256]
    remote = f":s3,provider=Other,env_auth=true,endpoint='{environment['AWS_ENDPOINT_URL']}':{BUCKET}/bench/rclone.bin"
    ends = [str(target), remote] if what == "up" else [remote, str(target)]
    rclone = [program("rclone"), "copyto", "--config", os.devnull, "--ignore-times", *ends]
    return {
        "ours": lambda: seconds_of(script, environment),
        "boto3": lambda: seconds_of(boto3, environment),
        "rclone copy": lambda: seconds_of(rclone, environment),
    }


def _write(path: Path, mebibytes: int) -> None:
    """Write bytes that do not compress and do not repeat."""
    with path.open("wb") as file:
        for _ in range(mebibytes // 16):
            file.write(os.urandom(16 * _MIB))
