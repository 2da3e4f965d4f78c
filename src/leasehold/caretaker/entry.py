"""The parcel's entry points: serve a connection, care for a run, keep an attempt, set it up, send, remind, whoami."""

from __future__ import annotations

import os
import sys

from leasehold.kit.startup.typing_stub import unhinted

TYPE_CHECKING = False  # typing itself would take half the time of a short process
if TYPE_CHECKING:
    from typing import List


def main(argv: List[str]) -> int:
    """Dispatch; each entry point imports its own modules, so that keeper and caretaker stay small."""
    door = (argv or [""])[0]
    os.umask(0o077)  # whichever process started us: a log may hold a secret until it is scrubbed
    if door == "serve" and len(argv) in (2, 3):
        with unhinted():
            from leasehold.caretaker.wire.connection import serve

            from .routes import OPERATIONS

        return serve(argv[1], OPERATIONS, checked=argv[2:] == ["checked"])
    if door == "care" and len(argv) in (2, 4):
        with unhinted():
            from leasehold.caretaker.run.run_folder import folder_at
            from leasehold.caretaker.supervisor.caretaker import care

        os.chdir("/")
        return care(folder_at(argv[1]), *argv[2:])
    if door == "keep" and 4 <= len(argv) <= 6:
        with unhinted():
            from leasehold.caretaker.attempt.keeper import keep
            from leasehold.caretaker.run.run_folder import folder_at

        return keep(folder_at(argv[1]), argv[2], int(argv[3]), *argv[4:])
    if door in _ERRANDS:
        return _run_errand(door, argv[1:])
    if door == "settle" and len(argv) > 1:
        from leasehold.caretaker.attempt.platform_shell import settle

        settle(argv[1:])
    if door in _OF_A_RUN and len(argv) == 2:
        return _for_run(door, argv[1])
    if door == "ready" and len(argv) == 4:
        from leasehold.caretaker.run.run_folder import RunFolder
        from leasehold.caretaker.setup.step import ready

        return ready(RunFolder(argv[1]), argv[2], int(argv[3]))
    if door == "enter" and len(argv) >= 3:
        from leasehold.caretaker.requests.enter import enter
        from leasehold.caretaker.run.run_folder import RunFolder

        return enter(RunFolder(argv[1]), argv[2], argv[3:])
    if door == "task" and len(argv) in (3, 6):
        return _run_task(argv[1], argv[2:])
    if door == "whoami" and len(argv) == 1:
        from leasehold.caretaker.setup.tracker_keys import answer_stream

        return answer_stream(sys.stdin, sys.stdout)
    if (door, len(argv)) in _TELLERS:
        return _tell(door, argv[1:])
    sys.stderr.write(
        "usage: serve ROOT | care RUN [DETACH RESUME_BY] | keep RUN CELL ATTEMPT | ready RUN CELL ATTEMPT"
        " | judge RUN CELL ATTEMPT | seal RUN CELL | occupants RUN CELL | prune-scratch RUN CELL | refuge RUN"
        " | settle COMMAND… | fetch RUN | pull RUN | copy RUN | revive RUN | nag RUN | notice"
        " | enter RUN CELL [COMMAND…] | task RUN SUBMISSION [BY LEAD_S WALL_S] | pod RUN | tell RUN | whoami\n"
    )
    return 64


def _run_task(path: str, words: List[str]) -> int:
    """Care for a cell of a cluster's array; most are many and short, so skip clean-up that the process's end does."""
    import gc

    gc.disable()  # until the task has proved to be a longer one
    with unhinted():
        from leasehold.caretaker.process.own_command import Becoming
        from leasehold.caretaker.run.run_folder import RunFolder
        from leasehold.caretaker.slurm.task import Order, task

        from .artifacts import seal as sealing  # noqa: F401 - every cell needs them, the trainer's start too

    Becoming.main = main
    os.chdir("/")
    more = (words[1] == "home", float(words[2]), float(words[3])) if len(words) > 1 else ()
    code = task(RunFolder(path), Order(int(words[0]), *more), os.environ)
    sys.stderr.flush()
    os._exit(code)


def _run_errand(door: str, words: List[str]) -> int:
    """Answer one question for a caretaker; only the answer goes to stdout."""
    with unhinted():
        from leasehold.caretaker.run.run_folder import folder_at

    folder = folder_at(words[0])
    if door == "judge":
        from leasehold.caretaker.failure.judge import judge

        return judge(folder, words[1], int(words[2]))
    if door == "seal":
        os.nice(_YIELDS)  # the next cell begins at this very moment
        with unhinted():
            from leasehold.caretaker.artifacts.seal import seal

        return seal(folder, words[1])
    if door == "occupants":
        from leasehold.caretaker.status.wait_clear import occupants

        return occupants(folder, words[1])
    from leasehold.caretaker.failure.prune_scratch import prune

    return prune(folder, words[1])


def _for_run(door: str, path: str) -> int:
    """Do a long piece of work for a run beside its caretaker, or revive the run after a restart of the box."""
    from leasehold.caretaker.run.run_folder import folder_at

    folder = folder_at(path)
    if door == "pod":
        from leasehold.caretaker.kubernetes.pod import pod

        os.chdir("/")
        return pod(folder, os.environ)
    if door == "revive":
        from leasehold.caretaker.requests.revive import revive

        return revive(folder)
    if door == "copy":
        from leasehold.caretaker.artifacts.durable_copier import copy_run

        return copy_run(folder)
    if door == "publish":
        from leasehold.caretaker.refuge.publisher import publish_run

        return publish_run(folder)
    if door == "refuge":
        from leasehold.caretaker.refuge.worker import keep_off_box

        return keep_off_box(folder)
    from .downloads import download_worker

    return (download_worker.fetch if door == "fetch" else download_worker.pull)(folder)


_OF_A_RUN = ("pod", "fetch", "pull", "copy", "publish", "refuge", "revive")


def _tell(door: str, words: List[str]) -> int:
    """Send to people: one notice, a run's pending notices, or reminders that a box still bills."""
    if door == "notice":
        from leasehold.caretaker.notices.send import notice

        return notice(sys.stdin)
    from leasehold.caretaker.run.run_folder import folder_at

    folder = folder_at(words[0])
    if door == "nag":
        from leasehold.caretaker.notices.reminder import nag

        return nag(folder)
    from leasehold.caretaker.notices.send_child import tell

    return tell(folder, sys.stdin)


_TELLERS = (("notice", 1), ("nag", 2), ("tell", 2))
_YIELDS = 5
_ERRANDS = ("judge", "seal", "occupants", "prune-scratch")
