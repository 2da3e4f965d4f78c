"""A process that writes below a run's folder: `stray_writer.py MODE PATH NOTE`; it notes its pid and stays.

MODE: `append` holds PATH open for writing, `map` holds a writable mapping of it and no descriptor, `read` holds it
open for reading, `again` opens, writes and closes it over and over.
"""

import mmap
import os
import sys
import time

LIMIT_S = 600.0  # longer than a test waits for anything


def hold(mode: str, path: str) -> object:
    """Open what the mode says."""
    if mode == "append":
        return open(path, "ab", buffering=0)
    if mode == "read":
        return open(path, "rb")
    if mode == "map":
        with open(path, "w+b") as file:
            file.truncate(4096)
            return mmap.mmap(file.fileno(), 4096)
    return None


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
