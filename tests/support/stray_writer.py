"""A process that writes below a run's folder: `stray_writer.py MODE PATH NOTE`; it notes its pid and stays.

MODE: `append` holds PATH open for writing, `map` holds a writable mapping of it and no descriptor, `read` holds it
open for reading, `folder` holds its folder open, `again` opens, writes and closes it over and over.
"""

import ctypes
import os
import sys
import time

LIMIT_S = 600.0  # longer than a test waits for anything
_PAGE, _READ, _WRITE, _SHARED = 4096, 1, 2, 1


def hold(mode: str, path: str) -> object:
    """Open what the mode says."""
    if mode == "append":
        return open(path, "ab", buffering=0)
    if mode == "read":
        return open(path, "rb")
    if mode == "map":
        with open(path, "ab") as file:
            file.truncate(_PAGE)
        with open(path, "r+b") as file:
            return mapped(file.fileno())
    if mode == "folder":
        return os.open(os.path.dirname(path), os.O_RDONLY)
    return None


def mapped(fd: int) -> int:
    """Map a page by the C library: Python's own mmap keeps a descriptor of its own."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    place = call(None, _PAGE, _READ | _WRITE, _SHARED, fd, 0)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "the file cannot be mapped")
    return int(place)


def main(mode: str, path: str, note: str) -> None:
    """Write until the test ends us."""
    os.closerange(3, 64)  # it comes by another way: no lock of ours goes with it
    held = hold(mode, path)
    with open(note + ".new", "w") as file:
        file.write("%d\n" % os.getpid())
    os.rename(note + ".new", note)
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if mode == "append":
            held.write(b"still here\n")  # type: ignore[attr-defined]
        elif mode == "again":
            with open(path, "ab") as file:
                file.write(b"still here\n")
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:4])
