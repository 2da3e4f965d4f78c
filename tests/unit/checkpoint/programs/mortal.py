"""Die at every system call of a save, before it, in its middle and after it; each time restore and go on.

Usage: mortal.py FOLDER file|folder. Prints for each death its place and the step that was restored after it.
"""

import contextlib
import itertools
import os
import shutil
import signal
import sys
import traceback

from leasehold.checkpoint import Checkpointer
from leasehold.checkpoint.store.native import NativeCheckpoints

CALLS = (
    "open", "write", "pwrite", "fsync", "close", "lseek", "replace", "unlink", "rmdir", "mkdir", "listdir", "scandir",
    "stat", "statvfs",
)  # fmt: skip
PARTLY = ("write", "pwrite")
MOST = 400


def main(folder: str, kind: str) -> None:
    save, restore = {"file": (save_file, restore_file), "folder": (save_folder, restore_folder)}[kind]
    base = os.path.join(folder, "base")
    save(base, 3)
    save(base, 4)
    for when in ("before", "within", "after"):
        for number in range(1, MOST):
            place = os.path.join(folder, f"{when}-{number}")
            shutil.copytree(base, place)
            died = killed_at(number, when, lambda arm, place=place: save(place, 5, arm))
            if not died:
                break
            print("DIED", when, died, restore(place), flush=True)
            save(place, 6)
            assert restore(place) == 6
            shutil.rmtree(place)
        else:
            raise AssertionError(f"a save of more than {MOST} system calls")
    print("DONE", flush=True)


def nobody_dies() -> None:
    """Stand where a child begins to count."""


def save_file(place: str, step: int, arm=nobody_dies) -> None:
    state = {"step": 0, "ballast": b""}
    with Checkpointer(place, keep=2, every_steps=10**9, say=lambda line: None) as ckpt:
        ckpt.restore(state=state)
        state.update(step=step, ballast=bytes([step]) * 20_000)
        ckpt.step(step - 1)
        arm()
        ckpt.save()
        ckpt.save()  # the same step again must not endanger the first


def restore_file(place: str) -> int:
    said, state = [], {"step": 0, "ballast": b""}
    with Checkpointer(place, keep=2, every_steps=10**9, say=said.append) as ckpt:
        step = ckpt.restore(state=state).step
    assert not any("damaged" in line for line in said), said
    assert (state["step"], state["ballast"]) == (step, bytes([step]) * 20_000)
    return step


def save_folder(place: str, step: int, arm=nobody_dies) -> None:
    def write(temp: str) -> None:
        for name in ("weights", "optimizer"):
            with open(os.path.join(temp, name), "wb") as file:
                file.write(bytes([step]) * 20_000)

    shelf = NativeCheckpoints(place, keep=2, say=lambda line: None)
    shelf.newest()
    arm()
    shelf.save(step, write)
    shelf.save(step, write)


def restore_folder(place: str) -> int:
    said = []
    found = NativeCheckpoints(place, keep=2, say=said.append).newest()
    assert found and not any("damaged" in line for line in said), said
    step = int(os.path.basename(found)[5:15])
    for name in ("weights", "optimizer"):
        with open(os.path.join(found, name), "rb") as file:
            assert file.read() == bytes([step]) * 20_000
    return step


def killed_at(number: int, when: str, work) -> str:
    """Run the work in a child that dies at its so many-th call; return which call that was, empty if it lived."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda: mortal(number, when, writer))
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    name = os.read(reader, 100).decode()
    os.close(reader)
    assert code == (-signal.SIGKILL if name else 0), (code, name)
    return name


def mortal(number: int, when: str, writer: int) -> None:
    count, tell = itertools.count(1), os.write

    def wrapped(name: str):
        true = getattr(os, name)

        def call(*words, **more):
            if next(count) == number:
                with contextlib.suppress(OSError):
                    if when == "within" and name in PARTLY:
                        true(words[0], memoryview(words[1])[: len(words[1]) // 2], *words[2:])
                    elif when == "after":
                        true(*words, **more)
                tell(writer, name.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return true(*words, **more)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
