"""The one prescribed remedy for each class of failure (docs/decisions/0021).

Pure. Nothing here shrinks an experiment, edits a configuration, or restarts what failed the same way twice.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

from . import classes
from .back_off import pause_after

AGAIN, RESUME, PRUNE, STOP, RENT_AGAIN, ASK = "again", "resume", "prune_then_again", "stop", "rent_again", "ask"
GOES_ON = (AGAIN, RESUME, PRUNE)

SAME = "the identical command again"
WAITS_S: Tuple[float, ...] = (2.0, 10.0, 60.0, 300.0)  # before try 2, 3, ...; the last one repeats
_INTERRUPTED = ("reboot", "preempted", "walltime", "hangup", "killed", "unknown")


class Ended(NamedTuple):
    """The facts known when an attempt has failed."""

    klass: str
    verdict: str
    tries: int  # attempts since a person, or new work, last reset the limit
    most: int  # that the plan allows
    repeats: int = 1  # how often in a row it failed by this very sign at this very step
    saved: bool = False  # the attempt left newer work than it started with
    scratch: bool = False  # the job names files that may be deleted
    grace_s: float = 0.0  # how long a box that was announced to be taken away may still be seen
    cluster: bool = False  # another node sees the run's folder


class Remedy(NamedTuple):
    """The action, the reason, and the delay; `fresh` if new work resets the limit on attempts."""

    remedy: str
    why: str
    wait_s: float = 0.0
    fresh: bool = False


def choose(ended: Ended) -> Remedy:
    """Choose the remedy of a failed attempt."""
    if ended.klass in (classes.PREEMPTED, classes.WALLTIME):
        return _resume(ended)
    if ended.klass == classes.HARDWARE:
        return Remedy(RENT_AGAIN, "the hardware failed: %s" % leaving(ended.cluster))
    if ended.klass == classes.BUG:
        return Remedy(STOP, "it will fail the same way until something is changed")
    if ended.klass == classes.DISK_FULL:
        return _make_room(ended)
    if ended.klass == classes.UNKNOWN and ended.verdict not in _INTERRUPTED:
        return Remedy(STOP, "nothing suggests that the same command would end differently; read its log")
    return _again(ended)


def leaving(cluster: bool = False, run: str = "RUN") -> str:
    """Return what to do about a broken machine."""
    if cluster:
        return "use another node (slurm: flags: [--exclude=NODE]); the run folder is on the cluster's shared disk"
    return "leave this box: lease move %s --to BOX continues it on another one, from its newest whole state" % run


def wait_s(tries: int) -> float:
    """Return the pause before the next try, after this many."""
    return pause_after(tries, WAITS_S)


def _resume(ended: Ended) -> Remedy:
    pause_s = ended.grace_s if ended.verdict == "preempted" else 0.0
    if ended.saved:
        return Remedy(RESUME, "it saved newer work than it started from", pause_s, fresh=True)
    if ended.tries >= ended.most:
        return Remedy(STOP, _used_up(ended))
    return Remedy(RESUME, SAME, max(pause_s, _pause_s(ended)))


def _again(ended: Ended) -> Remedy:
    if ended.repeats > 1:
        return Remedy(STOP, "it failed twice with the same error at the same step")
    if ended.tries >= ended.most:
        return Remedy(STOP, _used_up(ended))
    return Remedy(AGAIN, SAME, _pause_s(ended))


def _make_room(ended: Ended) -> Remedy:
    if not ended.scratch:
        return Remedy(ASK, "the job lists no `scratch` files to delete: use a larger disk, or free some space")
    if ended.repeats > 1 or ended.tries >= ended.most:
        return Remedy(ASK, "pruning `scratch` was not enough: use a larger disk, or free some space")
    return Remedy(PRUNE, "the disk was full; best and last are kept")


def _pause_s(ended: Ended) -> float:
    """Return the pause; an interruption is nobody's fault, so the first one costs no pause."""
    if ended.verdict in _INTERRUPTED:
        return 0.0 if ended.tries <= 1 else wait_s(ended.tries - 1)
    return wait_s(ended.tries)


def _used_up(ended: Ended) -> str:
    return "%d of %d attempts are used without newer work" % (ended.tries, ended.most)
