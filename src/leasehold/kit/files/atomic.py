"""Write files that are whole or absent, whatever process dies in between."""

from __future__ import annotations

import contextlib
import json
import os
from _thread import get_ident  # threading itself would cost the keeper memory
from typing import Any, Dict, Iterator, Optional, Union


def write_atomic(path: str, data: bytes, durable: bool = True, mode: int = 0o644) -> None:
    """Replace path by data; a crash leaves the old file or the new one."""
    folder = os.path.dirname(path) or "."
    mark = (os.path.basename(path)[:40], os.getpid(), get_ident())  # two threads may write one file
    temp = os.path.join(folder, ".%s.%d.%x.tmp" % mark)
    with replacing(path, temp, durable, mode) as fd:
        write_all(fd, data)


@contextlib.contextmanager
def replacing(path: str, temp: str, durable: bool = True, mode: int = 0o644) -> Iterator[int]:
    """Yield a sibling path to write to; it replaces the path on success and is removed otherwise."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | careful, mode)
    try:
        try:
            yield fd
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    if durable:
        fsync_folder(os.path.dirname(path) or ".")


def write_json(path: str, value: Any, durable: bool = True) -> None:
    """Replace path by value as JSON."""
    write_atomic(path, spell_json(value), durable)


def spell_json(value: Any) -> bytes:
    """Encode value as our JSON files hold it; a lone surrogate becomes its escape."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """Return the object in path, or None when the file is absent or not an object."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_object(path: str) -> Optional[Dict[str, Any]]:
    """Return the object in path, None only if nothing is there; an unreadable file raises ValueError."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError("cannot be read: %s" % (error.strerror or error)) from None
    except (ValueError, RecursionError):
        raise ValueError("is garbled") from None
    if not isinstance(value, dict):
        raise ValueError("is garbled")
    return value


def read_small(path: str, most_bytes: int = -1) -> bytes:
    """Return the first bytes of a file, all by default; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes)
    except OSError:
        return b""


def read_link(path: str) -> str:
    """Return the target of a link, empty if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def write_all(fd: int, data: Union[bytes, memoryview]) -> None:
    """Write every byte; os.write may accept only some."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def fsync_folder(folder: str) -> None:
    """Make a rename in folder survive a power cut, if the filesystem can."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders; the rename itself is still atomic
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)
