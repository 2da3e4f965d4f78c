"""The smoke gate and the launch probe. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from leasehold.model.run.verdict import Finding, Verdict, judge, passes, refuses, unknown, warns

_RANK = r"^(?:\[[^\]\n]{0,40}\]:?)?[ \t|+]*"  # torchrun writes "[rank0]: " before each line, groups write "  | "
_TRACEBACK = re.compile(_RANK + r"(?:Exception Group )?Traceback \(most recent call last\):", re.MULTILINE)
_MISSING = re.compile(r"No module named '?([\w.]+)")
_RAISED = re.compile(_RANK + r"((?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?::.*)?)$", re.MULTILINE)


@dataclass(frozen=True)
class Continuation:
    """What a smoke did after it was killed and started again in the same folders."""

    killed: bool  # False: it ended before it could be killed, and was not restarted
    code: int = 0
    reached: str = ""  # the last step or epoch read before the kill
    first_before: str = ""
    first_after: str = ""  # the first step or epoch read after the second start
    further: bool = False  # first_after is past first_before
    from_zero: bool = False  # first_after is a progress bar's 0, which a run that continues may show too
    restored_step: int = 0  # by our own Checkpointer, from this smoke's own folders
    wrote: bool = False  # whether any file existed when it was killed


@dataclass(frozen=True)
class SmokeReadings:
    """What the smoke did on this machine."""

    command: str
    code: int
    output: str
    loss: float | None = None
    missing: tuple[str, ...] = ()
    delayed: str = ""  # the flag that seems to decide when a missing file is written
    unloadable: tuple[str, ...] = ()
    loaded: int = 0
    continuation: Continuation | None = None  # None: the kill check was not requested
    timed_out: bool = False
    interpreter: str = ""  # the machine that ran it
    notes: tuple[str, ...] = field(default_factory=tuple)
    twins: tuple[
        tuple[str, str, str], ...
    ] = ()  # an artifact, the reserved name that it would take at home, and what that name is there


def judge_smoke(readings: SmokeReadings) -> Verdict:
    """Check exit 0, no traceback, a finite loss where one is seen, and loadable promised artifacts."""
    findings = [
        judge(
            readings.code == 0,
            f"`{readings.command}` exited with {readings.code}",
            "fix it here, where it costs nothing",
        ),
        judge(
            not _TRACEBACK.search(readings.output),
            _traceback_text(readings.output),
            _missing_module(readings.output, f"{readings.interpreter or 'an unidentified Python'} ran the smoke"),
        ),
    ]
    if readings.timed_out:
        findings.append(refuses("the smoke did not end in time", "a smoke is two or three steps: make it smaller"))
    if readings.loss is not None:
        text = f"loss seen: {readings.loss:g}"
        findings.append(judge(math.isfinite(readings.loss), text, "a loss that is not finite never gets better"))
    if readings.code == 0:
        findings += [
            refuses(f"{path}: promised, and the smoke did not write it", readings.delayed or _WRITE_HINT)
            for path in readings.missing
        ]
        findings += [refuses(f"{text}") for text in readings.unloadable]
        findings += [_twin(*twin) for twin in readings.twins]
        if readings.loaded:
            findings.append(passes(f"{readings.loaded} artifacts of the smoke load as promised"))
    if readings.continuation is not None:
        findings.append(judge_continuation(readings.continuation))
    return Verdict("smoke", tuple(findings))


def _twin(path: str, other: str, name: str) -> Finding:
    what = f"{path} and {other} have the same name on some file systems; at home {path} is called {name}"
    return warns(what, "nothing is lost; give it another name if something looks for it there")


def judge_no_smoke(job: str, box: str, meter: str) -> Verdict:
    """Refuse a job without a smoke where time costs money; `meter` describes the billing."""
    hint = "add to the job file, for example: smoke: python train.py --steps 3 (docs/gates.md); else say why not: "
    return Verdict(
        "smoke",
        (refuses(f"the job {job} has no `smoke`, and {box} bills: {meter}", hint + "--skip-gate smoke --because '…'"),),
    )


def judge_continuation(seen: Continuation) -> Finding:
    """Judge whether it continued by what was read, not by exit 0: a script that starts at step 0 finishes too."""
    if not seen.killed:
        return unknown("the smoke ended before it could be killed: nothing shows whether it continues", _LONGER_HINT)
    again = f"killed {f'at {seen.reached}' if seen.reached else 'halfway'} and started again"
    if seen.code != 0:
        return refuses(f"{again}, it did not finish: exit {seen.code}", _RESUME_HINT)
    restored = f"its Checkpointer restored step {seen.restored_step}" if seen.restored_step else ""
    compared = bool(seen.first_before and seen.first_after and not seen.from_zero)
    if seen.further or (restored and not compared):
        what = f"first {seen.first_before} in the first run, first {seen.first_after} in the second"
        return passes(f"{again}, it continued and finished: {restored or what}")
    nothing = f"{again}: finished, but nothing shows that it continued"
    if seen.from_zero:
        return unknown(f"{nothing}: its progress bar began at 0", _PRINT_HINT)
    if compared and restored:
        hint = "begin the loop at the step that restore() returns: range(state.step, steps)"
        return refuses(f"{nothing}: {restored}, yet first {_of_second(seen.first_after)}", hint)
    if compared:
        hint = _RESUME_HINT if seen.wrote else f"no file was written before the kill; {_SAVE_HINT}"
        return refuses(f"{nothing}: first {_of_second(seen.first_after)}", hint)
    missing = "second" if seen.first_before else "first"
    return unknown(f"{nothing}: no step or epoch was read in the {missing} run", _PRINT_HINT)


def _of_second(place: str) -> str:
    """Turn "step 3" into "step of the second run was 3"."""
    word, _, number = place.partition(" ")
    return f"{word} of the second run was {number}"


def judge_launch(alive: bool, first_line: bool, log: str, waited_s: float, before: str = "") -> Verdict:
    """Check that it is alive, wrote a first line and no traceback; `before`: what comes first and may take hours."""
    silent = unknown(f"no output yet after {waited_s:.0f} s", "unbuffered output? A slow start?")
    if before:
        silent = unknown(before)
    return Verdict(
        "launch",
        (
            judge(alive, "the trainer lives" if alive else "the trainer is gone", "lease logs shows its last output"),
            passes("its first line came") if first_line else silent,
            judge(
                not _TRACEBACK.search(log),
                _traceback_text(log),
                _missing_module(log, "lease doctor RUN names the interpreter that ran it"),
            ),
        ),
    )


_SAVE_HINT = "save a checkpoint in the first half of the smoke, and load it at the start"
_RESUME_HINT = "load the newest checkpoint below $LEASE_OUT at the start; docs/checkpoints.md shows how"
_PRINT_HINT = "print the step, for example: step 1/6; or set `progress: <regex>` in the job"
_LONGER_HINT = "give the smoke more steps, each printed as it is done: step 1/6"
_WRITE_HINT = "write it into the folder that $LEASE_OUT names"


def _missing_module(output: str, who: str) -> str:
    """Suggest checking the interpreter when a module is missing: usually it is installed in another one."""
    found = _MISSING.findall(output)
    return f"{who}: install {found[-1]} for it, or start the job with the python that has it" if found else ""


def _traceback_text(output: str) -> str:
    if not _TRACEBACK.search(output):
        return "no traceback"
    errors = _RAISED.findall(output)
    return f"a traceback: {errors[-1].strip()[:200]}" if errors else "a traceback"
