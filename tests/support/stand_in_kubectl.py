#!/usr/bin/env python3
"""A `kubectl exec -i` that runs its command on this machine, and does what real ones were seen to do to a stream.

LEASEHOLD_EXEC_FAULT is `kind:blocks[:direction]`: after so many blocks of 32 KiB in one direction the fault happens.
cut: the rest is dropped and the end is passed on; truncate: the rest is dropped, and the exit status is 0;
repeat: the last block is passed on once more; drop: one block is lost; change: one bit changes;
freeze: nothing moves any more; no-end: the end of stdin is never passed on.
"""

import os
import select
import signal
import subprocess
import sys

BLOCK = 32 << 10


def main() -> int:
    argv = sys.argv[1:]
    if "exec" not in argv:
        print("this stand-in only knows exec, not %s" % " ".join(argv), file=sys.stderr)
        return 1
    command = argv[argv.index("--") + 1 :]
    kind, blocks, direction = (os.environ.get("LEASEHOLD_EXEC_FAULT", "none:0:out") + ":out").split(":")[:3]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
    assert child.stdin is not None and child.stdout is not None
    near_in, near_out = Pipe(0, child.stdin.fileno()), Pipe(child.stdout.fileno(), 1)
    (near_in if direction == "in" else near_out).fault = (kind, int(blocks))
    near_in.ends = kind != "no-end"
    try:
        while near_out.open:
            if near_in.frozen or near_out.frozen:
                signal.pause()
            ready = select.select([pipe.source for pipe in (near_in, near_out) if pipe.open], [], [])[0]
            for pipe in (near_in, near_out):
                if pipe.source in ready:
                    pipe.move()
            if near_out.truncated:
                return 0  # the remote process lives on, as behind a real kubelet
    except OSError:
        pass
    return child.wait() if not near_in.open or not near_out.open else 0


class Pipe:
    """One direction: bytes are counted from its beginning, faults happen at block boundaries."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        self.open, self.frozen, self.truncated, self.dropping, self.ends = True, False, False, False, True
        self.fault, self.moved, self.done = ("none", 0), 0, False

    def move(self) -> None:
        data = os.read(self.source, BLOCK - self.moved % BLOCK)
        if not data:
            self.open = False
            if self.ends:
                os.close(self.target)
            return
        self.moved += len(data)
        kind, after = self.fault
        if not self.done and self.moved > after * BLOCK:
            self.done = True
            if kind == "freeze":
                self.frozen = True
                return
            if kind == "truncate":
                self.truncated = True
                return
            if kind == "cut":
                self.open = False
                os.close(self.target)
                return
            if kind == "drop":
                return
            if kind == "change":
                middle = len(data) // 2
                data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            if kind == "repeat":
                data = data + data
        self.put(data)

    def put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.target, view) :]


if __name__ == "__main__":
    sys.exit(main())
