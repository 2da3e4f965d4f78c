"""What is fuzzed: bytes become a file or a folder, a reader reads it, and it may answer or refuse, nothing else.

While it reads, the interpreter's own audit events are watched: code that is run, a module that is
imported, a process, a socket or a file outside the sandbox is a finding, as is any error but Unreadable.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from leasehold.kit.files.checkpoint_file import Damaged, parse_header
from leasehold.kit.readers import Limits, Source, Unreadable, read_source
from leasehold.kit.readers.checkpoints.folders import read_folder
from leasehold.kit.readers.formats import FORMATS
from leasehold.kit.readers.torch.torch_legacy import MAGIC
from tests.unit.kit.readers.forge import torch_zip

SEEDS = Path(__file__).with_name("seeds")
GOLDEN = Path(__file__).parents[1] / "unit/kit/readers/golden"
_QUICK = Path("/dev/shm")
_STORAGE = bytes(range(16))
_SHARD = b"\x1c\0\0\0\0\0\0\0" + b'{"__metadata__":{"a":"b"}}  '  # a safetensors file without a tensor
# As small as the files are, so that a bound which does not hold shows at once.
LIMITS = Limits(max_pickle_ops=200_000, max_items=10_000, max_memo=10_000, max_inflated_bytes=64 << 20)
# Not "compile": ast.literal_eval parses the header of an npy file with it, into a tree and no further.
_ABROAD = (
    "exec", "import", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename",
    "os.mkdir", "os.truncate", "subprocess.Popen", "pickle.find_class", "ctypes.dlopen", "marshal.loads",
)  # fmt: skip

Target = Callable[[bytes], None]


class Abroad(BaseException):
    """A reader did what no reader may; not an Exception, so that no reader can swallow it."""


def targets() -> dict[str, Target]:
    """Name every reader's way in, the deeper ones behind a wrapping that is right."""
    files = (*FORMATS, "json", "jsonl", "csv", "npy", "npz", "safetensors", "torch", "checkpoint", "tar")
    found: dict[str, Target] = {kind: _file_target(kind) for kind in files}
    plain = found["checkpoint"]
    found["torch_pickle"] = lambda data: plain(torch_zip(data, {"0": _STORAGE}))
    found["legacy"] = lambda data: plain(MAGIC + data)
    found["header"] = _header
    found["dcp"] = lambda data: _folder({".metadata": data, "__0_0.distcp": _STORAGE})
    found["hf"] = lambda data: _folder({"model.safetensors.index.json": data, "a.safetensors": _SHARD})
    found["listed"] = lambda data: _folder({".metadata": _metadata(), "__0_0.distcp": _STORAGE, "leasehold.json": data})
    return found


def seeds(name: str) -> list[Path]:
    """List the kept inputs of a target: those that once broke it, and what the real libraries wrote."""
    return sorted(path for folder in (SEEDS / name, GOLDEN / name) if folder.is_dir() for path in folder.iterdir())


def watch() -> None:
    """Listen to the interpreter, for the rest of its life: this cannot be undone."""
    for codec in ("unicode_escape", "raw_unicode_escape", "latin-1"):
        codecs.lookup(codec)  # Python imports them at their first use
    sys.addaudithook(_heed)


_watching = False


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    global _watching
    _watching = True
    try:
        yield
    finally:
        _watching = False


def _heed(event: str, words: tuple[object, ...]) -> None:
    if not _watching:
        return
    writes = event == "open" and isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR)
    if event in _ABROAD or writes or event.startswith("socket."):
        raise Abroad(f"{event} {words!r}"[:500])


def _file_target(kind: str) -> Target:
    def one(data: bytes) -> None:
        with _file(data) as fd, contextlib.suppress(Unreadable), Source(os.dup(fd), "fuzzed") as source, _watched():
            read_source(source, kind, LIMITS)

    return one


def _header(data: bytes) -> None:
    with _file(data) as fd, contextlib.suppress(Damaged), _watched():
        parse_header(fd)


def _folder(files: dict[str, bytes]) -> None:
    place = tempfile.mkdtemp(prefix="leasehold-fuzz-", dir=_QUICK if _QUICK.is_dir() else None)
    try:
        for name, data in files.items():
            Path(place, name).write_bytes(data)
        with contextlib.suppress(Unreadable), _watched():
            read_folder(place, LIMITS)
    finally:
        shutil.rmtree(place)


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[int]:
    fd = os.memfd_create("fuzzed")
    try:
        os.write(fd, data or b"\0")  # an empty file is refused before any reader sees it
        yield fd
    finally:
        os.close(fd)


def _metadata() -> bytes:
    return (SEEDS / "dcp" / "one-shard").read_bytes()
