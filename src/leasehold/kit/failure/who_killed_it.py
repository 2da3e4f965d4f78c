"""Determine what ended a vanished process: rules in order of evidence, and the first that holds is the verdict.

Pure: facts in, verdict out. Every rule names its evidence; a fact that could not be read decides nothing, and if
no rule holds the verdict is unknown. Only `oom` ever leads to using less memory.
"""

from __future__ import annotations

import signal
from typing import List, NamedTuple, Optional, Sequence, Tuple

EXITED = "exited"  # not vanished: the program ended with its own exit code
REBOOT, OOM, PREEMPTED, WALLTIME = "reboot", "oom", "preempted", "walltime"
HANGUP, KILLED, CRASHED, STALLED, UNKNOWN = "hangup", "killed", "crashed", "stalled", "unknown"
DIVERGED = "diverged"  # we ended it ourselves because its loss was not finite and the job demands a stop
VERDICTS = (EXITED, REBOOT, OOM, PREEMPTED, WALLTIME, HANGUP, KILLED, CRASHED, STALLED, UNKNOWN, DIVERGED)

NO_OOM = "the kernel killed nothing for memory in this cgroup"
CLOCK_TOLERANCE_S = 180.0  # a platform's clock starts before our attempt does, and fires when its scheduler checks
_BY_ITSELF = {
    signal.SIGSEGV: "SIGSEGV",
    signal.SIGABRT: "SIGABRT",
    signal.SIGBUS: "SIGBUS",
    signal.SIGFPE: "SIGFPE",
    signal.SIGILL: "SIGILL",
}


class Vanished(NamedTuple):
    """The facts about an attempt that ended; None is unknown."""

    code: Optional[int] = None
    signal: Optional[int] = None
    lost: bool = False  # nobody saw it end
    boot_then: str = ""
    boot_now: str = ""
    oom_kills_then: Optional[int] = None
    oom_kills_now: Optional[int] = None
    stalled: bool = False  # we ended it ourselves because it stalled and the job demands a restart
    diverged: str = ""  # the observed loss when we ended it
    kernel: Sequence[str] = ()  # lines of the kernel log about our own processes
    kernel_readable: bool = False
    noticed: str = ""  # source of the announcement that the box will be taken away
    all_told: bool = False  # keeper or caretaker got SIGTERM too, so it was not meant for the trainer alone
    age_s: Optional[float] = None
    clocks: Sequence[Tuple[str, float]] = ()  # the platform's own: name, seconds from the run's start


class Verdict(NamedTuple):
    """The cause of the end, and the lines that support it."""

    word: str
    evidence: Tuple[str, ...]


def descend(facts: Vanished) -> Verdict:
    """Check the rules in order; the first that holds is the verdict."""
    for rung in (_reboot, _diverged, _oom, _preempted, _stalled, _walltime, _exited, _hangup, _crashed, _killed):
        found = rung(facts)
        if found is not None:
            return found
    return Verdict(UNKNOWN, tuple(_ruled_out(facts)))


def _reboot(facts: Vanished) -> Optional[Verdict]:
    if not facts.boot_then or not facts.boot_now or facts.boot_then == facts.boot_now:
        return None
    said = "the box was started again: boot %s, now %s" % (facts.boot_then[:8], facts.boot_now[:8])
    if facts.noticed:
        return Verdict(PREEMPTED, ("announced by %s" % facts.noticed, said))
    return Verdict(REBOOT, (said,))


def _diverged(facts: Vanished) -> Optional[Verdict]:
    if not facts.diverged or (facts.signal is None and not facts.lost):
        return None
    return Verdict(DIVERGED, (facts.diverged, "we ended it, as its job says (on_nan: stop)"))


def _oom(facts: Vanished) -> Optional[Verdict]:
    if facts.code is not None and facts.signal is None and not facts.lost and not facts.kernel:
        return None  # a worker may have been killed for memory; the log says whether that ended the program
    grown = _oom_delta(facts)
    lines = [line for line in facts.kernel if "out of memory" in line.lower() or "oom" in line.lower()]
    hit = facts.lost or facts.signal == signal.SIGKILL
    if not lines and not (hit and grown):
        return None
    said = ["the kernel killed %d for memory in this cgroup during the attempt (oom_kill)" % grown] if grown else []
    return Verdict(OOM, (*said, *(line[:200] for line in lines[:2])))


def _preempted(facts: Vanished) -> Optional[Verdict]:
    if not facts.noticed:
        return None
    if facts.code == 0 and facts.signal is None:
        return None
    return Verdict(PREEMPTED, ("announced by %s before it ended" % facts.noticed,))


def _stalled(facts: Vanished) -> Optional[Verdict]:
    if not facts.stalled or (facts.signal is None and not facts.lost):
        return None
    return Verdict(STALLED, ("it stalled, and we ended it as its job says",))


def _walltime(facts: Vanished) -> Optional[Verdict]:
    if facts.age_s is None or (facts.signal is None and not facts.lost):
        return None
    for name, after_s in facts.clocks:
        if abs(facts.age_s - after_s) <= CLOCK_TOLERANCE_S:
            said = "it was %.0f s old, and the platform's clock (%s) fires at %.0f s" % (facts.age_s, name, after_s)
            return Verdict(WALLTIME, (said,))
    return None


def _exited(facts: Vanished) -> Optional[Verdict]:
    if facts.lost or facts.signal is not None or facts.code is None:
        return None
    return Verdict(EXITED, ("exit code %d" % facts.code,))


def _hangup(facts: Vanished) -> Optional[Verdict]:
    if facts.signal != signal.SIGHUP:
        return None
    return Verdict(HANGUP, ("SIGHUP: the terminal or session that it hung on went away",))


def _crashed(facts: Vanished) -> Optional[Verdict]:
    name = _BY_ITSELF.get(facts.signal) if facts.signal is not None else None  # type: ignore[call-overload]
    return Verdict(CRASHED, ("%s: it broke by itself" % name,)) if name else None


def _killed(facts: Vanished) -> Optional[Verdict]:
    if facts.signal is None:
        return None
    if facts.signal in (signal.SIGTERM, signal.SIGKILL) and facts.all_told:
        return Verdict(PREEMPTED, ("SIGTERM came to its keeper too: everything on this machine was asked to end",))
    said = "signal %d from outside; our own journal has no kill" % facts.signal
    return Verdict(KILLED, (said, *_ruled_out(facts)))


def _ruled_out(facts: Vanished) -> List[str]:
    """Report which rules were checked and did not hold; an unreadable fact rules nothing out."""
    grown = _oom_delta(facts)
    said = ["nobody saw it end"] if facts.lost else []
    if facts.boot_then and facts.boot_then == facts.boot_now:
        said.append("same boot as at its start")
    if grown == 0:
        said.append(NO_OOM)
    elif grown is None:
        said.append("the cgroup's oom_kill counter could not be read")
    if not facts.kernel_readable:
        said.append("the kernel's log may not be read here")
    return said


def _oom_delta(facts: Vanished) -> Optional[int]:
    if facts.oom_kills_then is None or facts.oom_kills_now is None:
        return None
    if facts.oom_kills_now < facts.oom_kills_then:  # another cgroup, as after a restart of the container
        return facts.oom_kills_now
    return facts.oom_kills_now - facts.oom_kills_then
