"""A child process that does one wrong thing: python misbehaving.py WHAT. Run by path, never imported."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time


def main(what: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _say({"confinement": ["told"]})
    _WAYS[what]()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def quit_early() -> None:
    sys.exit(3)


def slay_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.2)


def hang() -> None:
    time.sleep(600)


def close_and_hang() -> None:
    os.close(1)
    time.sleep(600)


def garble() -> None:
    sys.stdout.buffer.write(b"\xff\x00garbage\n")
    sys.stdout.flush()
    hang()


def say_no_object() -> None:
    sys.stdout.write("[1, 2]\n")
    sys.stdout.flush()


def nest() -> None:
    sys.stdout.write("[" * 1_000_000 + "\n")
    sys.stdout.flush()


def flood() -> None:
    while True:
        os.write(1, b"x" * 1_000_000)


def lie() -> None:
    _say({"ok": True, "reading": {"kind": "torch", "keys": [1, 2]}})


def lie_less() -> None:
    _say({"ok": "yes"})


def _say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


_WAYS = {
    each.__name__: each
    for each in (
        crash,
        quit_early,
        slay_parent,
        hang,
        close_and_hang,
        garble,
        say_no_object,
        nest,
        flood,
        lie,
        lie_less,
    )  # fmt: skip
}

if __name__ == "__main__":
    main(sys.argv[1])
